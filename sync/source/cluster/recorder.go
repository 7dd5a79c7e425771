package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/bits"
	"os"
	"slices"
	"strings"
	stdsync "sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"kube-vmap/model"
	"kube-vmap/sync"
)

// ReasonTakeover is the reason of the event that the node was rolled back to kube-proxy.
const ReasonTakeover = "TakeoverFailed"

// Reasons of events that kube-proxy has, too, and that alerts may look for.
const (
	ReasonStarting      = "Starting"
	ReasonHealthServer  = "FailedToStartProxierHealthcheck"
	ReasonMetricsServer = "FailedToStartMetricServer"
)

// The reporting controller and the actions of events.
const (
	reporter      = "kube-vmap"
	actionStart   = "StartKubeVmap"
	actionListen  = "Listen"
	actionProgram = "ProgramRules"
)

// maxNote is the API's limit for the length of a note, in bytes.
const maxNote = 1024

// A Recorder is a [sync.Recorder] that creates Kubernetes events (events.k8s.io/v1).
// Equal events about the same object become one series.
//
// Events have the lowest priority of everything the proxy does: after the first ten, one
// is sent each second, and a few hundred may wait. All of them are in the log as well.
//
// If an object itself is wrong, every node sees that at the same moment: one bad
// Service on five thousand nodes makes five thousand events. Such cluster-wide events
// wait for a random time of up to half a minute; after the first three, one is sent
// every ten seconds. They do not delay the events of the node itself.
type Recorder struct {
	client             rest.Interface
	node               sync.Object
	host               string
	log                *slog.Logger
	local, clusterWide *pacedQueue
}

// isClusterWide reports whether all nodes send events for that reason.
func isClusterWide(reason string) bool {
	return slices.Contains([]string{
		model.ProblemUnusable, model.ProblemRefused, model.ProblemConflict, model.ProblemOpen,
	}, reason)
}

var _ sync.Recorder = (*Recorder)(nil)

// NewRecorder returns a recorder for the proxy on the named node. Events wait until Run.
func NewRecorder(client *Client, nodeName string, log *slog.Logger) *Recorder {
	r := &Recorder{
		client: client.events, node: sync.Object{Kind: "Node", Name: nodeName}, log: log,
		local:       newPacedQueue(time.Second, 10, 0),
		clusterWide: newPacedQueue(10*time.Second, 3, 30*time.Second),
	}
	r.host, _ = os.Hostname() // the reporter only lacks it
	return r
}

// Warn implements [sync.Recorder].
func (r *Recorder) Warn(o sync.Object, reason, note string) {
	action := actionProgram
	if reason == model.ProblemHealthCheck || reason == model.ProblemLocalhost {
		action = actionListen
	}
	r.enqueue(r.newEvent(o, corev1.EventTypeWarning, reason, action, note))
}

// Starting records that the node's proxy starts.
func (r *Recorder) Starting() {
	r.enqueue(r.newEvent(r.node, corev1.EventTypeNormal, ReasonStarting, actionStart, ""))
}

// FailedToStart records that the node's proxy, or a part of it, cannot start. Because the process
// usually ends next, it waits until the API server has the event or ctx ends.
func (r *Recorder) FailedToStart(ctx context.Context, reason, note string) error {
	if err := r.create(ctx, r.newEvent(r.node, corev1.EventTypeWarning, reason, actionStart, note)); err != nil {
		return fmt.Errorf("create event %s: %w", reason, err)
	}
	return nil
}

func (r *Recorder) enqueue(e *eventsv1.Event) {
	q := r.local
	if isClusterWide(e.Reason) {
		q = r.clusterWide
	}
	if !q.put(e) {
		r.log.Debug("too many events, dropping one", "object", e.Regarding.Kind+" "+e.Regarding.Name, "reason", e.Reason)
	}
}

// Run sends events until ctx ends, which is not an error. Events that wait are lost then.
func (r *Recorder) Run(ctx context.Context) error {
	var queues stdsync.WaitGroup
	for _, q := range []*pacedQueue{r.local, r.clusterWide} {
		s := series{Recorder: r, sent: map[seriesKey]*sentEvent{}}
		queues.Go(func() { q.run(ctx, s.send) })
	}
	queues.Wait()
	return nil
}

func (r *Recorder) newEvent(o sync.Object, kind, reason, action, note string) *eventsv1.Event {
	now, by := time.Now(), model.Named(reporter)
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Name: eventName(o.Name, now), Namespace: cmp.Or(o.Namespace, metav1.NamespaceDefault),
		},
		EventTime: metav1.NewMicroTime(now), ReportingController: by, ReportingInstance: by + "-" + r.host,
		Regarding: reference(o), Type: kind, Reason: reason, Action: action, Note: truncate(note),
	}
}

func reference(o sync.Object) corev1.ObjectReference {
	r := corev1.ObjectReference{
		Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, UID: types.UID(o.UID),
		APIVersion: corev1.SchemeGroupVersion.String(),
	}
	switch o.Kind {
	case "EndpointSlice":
		r.APIVersion = discoveryv1.SchemeGroupVersion.String()
	case "ServiceCIDR":
		r.APIVersion = networkingv1.SchemeGroupVersion.String()
	case "Node":
		if o.UID == "" {
			// kubectl describe finds a Node's events by UID, or by the name in place of
			// the UID, which components send if they do not know it.
			r.UID = types.UID(o.Name)
		}
	}
	return r
}

// truncate cuts a note, between characters, to the length that the API accepts.
func truncate(note string) string {
	const dots = "..."
	if len(note) <= maxNote {
		return note
	}
	return strings.ToValidUTF8(note[:maxNote-len(dots)], "") + dots
}

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
