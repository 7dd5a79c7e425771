package main

import (
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"kube-vmap/model"
)

// write is a request to the API server that changes one object. It returns the
// object's new resource version.
type write func(context.Context) (version string, err error)

// kind is a kind of change.
type kind struct {
	name string
	// promised is set for the change of one endpoint.
	promised bool
	// prepare creates the objects that the n-th of these changes needs.
	prepare func(w *world, ctx context.Context, n int) (write, error)
}

var kinds = []kind{
	{"endpoint replaced", true, (*world).replaceEndpoint},
	{"endpoint added", true, (*world).addEndpoint},
	{"Service added", false, (*world).addService},
	{"endpoint replaced, external traffic Local", true, (*world).replaceLocalEndpoint},
}

// pick returns the number of another Service each time, neither close to the one before
// nor one that the other kind of change picks.
func (w *world) pick(n, parity int) int {
	const stride = 7919 // a prime, so that neighbours in time are none in any map
	return n*stride%(w.filling.Services/2)*2 + parity
}

// newcomer returns the address of the n-th additional pod.
func newcomer(n int) string {
	base := netip.MustParseAddr("10.200.0.0").As4()
	base[2], base[3] = byte(n>>8), byte(n)
	return netip.AddrFrom4(base).String()
}

func (w *world) replaceEndpoint(_ context.Context, n int) (write, error) {
	s := w.filling.Slice(w.pick(n, 0), model.IPv4)
	s.Endpoints[n%len(s.Endpoints)].Addresses = []string{newcomer(n)}
	return w.updateSlice(s), nil
}

func (w *world) addEndpoint(_ context.Context, n int) (write, error) {
	s := w.filling.Slice(w.pick(n, 1), model.IPv4)
	more := *s.Endpoints[0].DeepCopy()
	more.Addresses = []string{newcomer(n)}
	s.Endpoints = append(s.Endpoints, more)
	return w.updateSlice(s), nil
}

func (w *world) updateSlice(s *discoveryv1.EndpointSlice) write {
	return func(ctx context.Context) (string, error) {
		s, err := w.ns.UpdateSlice(ctx, s)
		if err != nil {
			return "", err
		}
		return s.ResourceVersion, nil
	}
}

// addService creates the slices of a Service beforehand. The change is to create the
// Service.
func (w *world) addService(ctx context.Context, n int) (write, error) {
	more := *w.filling
	more.Prefix = "more"
	for _, f := range more.Families {
		if _, err := w.ns.CreateSlice(ctx, more.Slice(n, f)); err != nil {
			return nil, err
		}
	}
	s := more.Service(n)
	return func(ctx context.Context) (string, error) {
		s, err := w.ns.CreateService(ctx, s)
		if err != nil {
			return "", err
		}
		return s.ResourceVersion, nil
	}, nil
}

// replaceLocalEndpoint creates a Service of type LoadBalancer, with node ports and the
// external traffic policy Local, whose endpoints are all on the node that is measured: each
// of them is there for pods, and once more for clients outside.
func (w *world) replaceLocalEndpoint(ctx context.Context, n int) (write, error) {
	local, class := *w.filling, "bench.example.com/by-hand"
	local.Prefix, local.Node = "local", nodeName
	s := local.Service(n)
	s.Spec.Type, s.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, &class
	s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	if _, err := w.ns.CreateService(ctx, s); err != nil {
		return nil, err
	}
	ip := netip.AddrFrom4([...]byte{198, 18, byte(n >> 8), byte(n)})
	if err := w.ns.SetLoadBalancer(ctx, s.Name, corev1.LoadBalancerIngress{IP: ip.String()}); err != nil {
		return nil, err
	}
	for _, f := range local.Families {
		if _, err := w.ns.CreateSlice(ctx, local.Slice(n, f)); err != nil {
			return nil, err
		}
	}
	slice := local.Slice(n, model.IPv4)
	slice.Endpoints[n%len(slice.Endpoints)].Addresses = []string{newcomer(n)}
	return w.updateSlice(slice), nil
}

// prepare prepares n changes of a kind, from the given one on.
func (w *world) prepare(ctx context.Context, k kind, from, n int) ([]write, error) {
	all := make([]write, n)
	for i := range all {
		var err error
		if all[i], err = k.prepare(w, ctx, from+i); err != nil {
			return nil, fmt.Errorf("prepare %s: %w", k.name, err)
		}
	}
	return all, nil
}
