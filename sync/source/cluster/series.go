package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/wait"

	"kube-vmap/sync"
)

const (
	// seriesTimeout is how long after the last of equal events another one begins a new series.
	seriesTimeout = 6 * time.Minute
	// seriesPeriod is how often a long series is updated at least.
	seriesPeriod = 10 * time.Minute
	// resendPeriod is how long to wait while the API server does not respond.
	resendPeriod = 10 * time.Second
)

// A series sends events. Equal ones about an object become one, with a count: the API server
// is sent the second, the fourth, the eighth and so on. (The recorder of client-go does much the
// same, but needs the clients of all kinds of objects.)
type series struct {
	*Recorder
	sent map[seriesKey]*sentEvent
}

type seriesKey struct {
	regarding            corev1.ObjectReference
	kind, reason, action string
}

type sentEvent struct {
	namespace, name string
	count           int32
	last, updated   time.Time
}

// send adds an event to a series or creates one, and retries until the API server responds or
// ctx ends.
func (s *series) send(ctx context.Context, e *eventsv1.Event) {
	now := time.Now()
	maps.DeleteFunc(s.sent, func(_ seriesKey, old *sentEvent) bool { return now.Sub(old.last) > seriesTimeout })
	key := seriesKey{e.Regarding, e.Type, e.Reason, e.Action}
	first := s.sent[key]
	if first != nil {
		first.count, first.last = first.count+1, now
		if bits.OnesCount32(uint32(first.count)) > 1 && now.Sub(first.updated) < seriesPeriod {
			return
		}
		first.updated = now
	}
	for ctx.Err() == nil {
		err := s.write(ctx, key, first, e)
		answer := apierrors.APIStatus(nil)
		switch {
		case err == nil:
			return
		case errors.As(err, &answer):
			s.log.Debug("event refused", "object", e.Regarding.Kind+" "+e.Regarding.Name, "reason", e.Reason, "err", err)
			return
		}
		sync.Sleep(ctx, wait.Jitter(resendPeriod, 0.25))
	}
}

// write updates the series of an event, or creates it if it does not exist or no longer
// exists.
func (s *series) write(ctx context.Context, key seriesKey, first *sentEvent, e *eventsv1.Event) error {
	if first != nil {
		if err := s.update(ctx, first); !apierrors.IsNotFound(err) {
			return err
		}
	}
	err := s.create(ctx, e)
	if err == nil {
		now := time.Now()
		s.sent[key] = &sentEvent{namespace: e.Namespace, name: e.Name, count: 1, last: now, updated: now}
	}
	return err
}

func (r *Recorder) create(ctx context.Context, e *eventsv1.Event) error {
	return r.client.Post().Namespace(e.Namespace).Resource("events").Body(e).Do(ctx).Error()
}

func (r *Recorder) update(ctx context.Context, first *sentEvent) error {
	patch, err := json.Marshal(map[string]any{
		"series": eventsv1.EventSeries{Count: first.count, LastObservedTime: metav1.NewMicroTime(first.last)},
	})
	if err != nil {
		return err
	}
	return r.client.Patch(types.MergePatchType).Namespace(first.namespace).Resource("events").Name(first.name).
		Body(patch).Do(ctx).Error()
}

// eventName returns a name for an event about an object. Some object names are not valid
// event names.
func eventName(object string, now time.Time) string {
	name := fmt.Sprintf("%s.%x", object, now.UnixNano())
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return fmt.Sprintf("%s.%x", reporter, now.UnixNano())
	}
	return name
}
