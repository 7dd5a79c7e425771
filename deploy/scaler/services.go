package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"kube-vmap/model"
	"kube-vmap/sync/source/convert"
)

const (
	// checkPeriod is how long the result of a check is kept, at most maxChecks of them.
	checkPeriod = 30 * time.Second
	maxChecks   = 10_000
	// unknownPeriod is the same if the API server has not responded.
	unknownPeriod = 5 * time.Second
	// checkTimeout limits a check.
	checkTimeout = 2 * time.Second
)

// services checks Services of triggers. One without the annotation never has demand.
type services struct {
	api     corev1.ServicesGetter
	log     *slog.Logger
	results *cache.LRUExpireCache // error by model.ServiceName
}

func newServices(api corev1.ServicesGetter, log *slog.Logger) *services {
	return &services{api: api, log: log, results: cache.NewLRUExpireCache(maxChecks)}
}

// check returns why a Service has no demand; nil also if it is not known.
func (s *services) check(ctx context.Context, name model.ServiceName) error {
	if result, known := s.results.Get(name); known {
		err, _ := result.(error)
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	service, err := s.api.Services(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	period := checkPeriod
	switch {
	case apierrors.IsNotFound(err):
		err = fmt.Errorf("no Service %s", name)
	case err != nil:
		s.log.Warn("Service not readable", "service", name.String(), "err", err)
		err, period = nil, unknownPeriod
	case !convert.ScalesToZero(service.Annotations):
		err = fmt.Errorf("no annotation %[2]s of Service %[1]s", name, convert.AnnotationScaleToZero)
	}
	s.results.Add(name, err, period)
	return err
}
