package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "k8s.io/client-go/kubernetes/typed/discovery/v1"
)

// endpointPeriod is the time between checks of the endpoint.
const endpointPeriod = 2 * time.Second

// An endpoint checks that nodes report to this Pod, and to no other. After the control plane has lost a
// node, a successor may run elsewhere while KEDA is still connected to this program.
type endpoint struct {
	readKeys func(context.Context) error // without which it accepts no token
	api      v1.EndpointSliceInterface
	demands  *demands
	log      *slog.Logger
}

// run checks until ctx ends. While nodes may report elsewhere, demand is not known. If they do, after they
// reported here, it returns why, before a successor has settled: nodes and KEDA connect again then.
func (e *endpoint) run(ctx context.Context) error {
	var last time.Time // when nodes reported here
	logged := rate.Sometimes{Interval: logInterval}
	for ctx.Err() == nil {
		err := e.check(ctx)
		switch {
		case err == nil:
			last = time.Now()
		case !last.IsZero() && time.Since(last) >= settleTime:
			return err
		default:
			e.demands.unsettle(settleTime)
			logged.Do(func() { e.log.Warn("demand is not known", "err", err) })
		}
		select {
		case <-time.After(endpointPeriod):
		case <-ctx.Done():
		}
	}
	return nil
}

// check returns why nodes may report elsewhere.
func (e *endpoint) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	list, err := e.api.List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + objectName})
	own, failed := net.InterfaceAddrs()
	if err := cmp.Or(err, failed, e.readKeys(ctx)); err != nil {
		return fmt.Errorf("nodes may report to another Pod: %w", err)
	}
	reason := fmt.Errorf("nodes cannot report: Service %s has no ready endpoint", objectName)
	for _, slice := range list.Items {
		for _, one := range slice.Endpoints {
			isOwn := func(a net.Addr) bool { return strings.HasPrefix(a.String(), one.Addresses[0]+"/") }
			switch ready := one.Conditions.Ready; {
			case ready != nil && !*ready:
			case slices.ContainsFunc(own, isOwn):
				reason = nil
			default:
				return fmt.Errorf("nodes report to another Pod, %s", one.Addresses[0])
			}
		}
	}
	return reason
}
