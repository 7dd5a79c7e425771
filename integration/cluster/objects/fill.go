package objects

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// parallel is how many requests are under way at the same time.
const parallel = 32

// Filling describes the objects that [Namespace.Fill] creates.
type Filling struct {
	// Services is their number; their names are "<Prefix>-<number>", from 0.
	Services int
	Prefix   string
	// Endpoints is the number of endpoints of each in each family, in one slice per
	// family called "<Service>-ipv4" or "-ipv6".
	Endpoints int
	// Families are those the Services have.
	Families []model.Family
	// Node is where the endpoints run; it may be empty.
	Node string
}

var fillPort = Port(model.TCP, 80, 8080)

// Fill creates Services without selector, and slices for them, as fast as the API server
// permits.
func (n *Namespace) Fill(ctx context.Context, f *Filling) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i := range f.Services {
		group.Go(func() error { return n.fillOne(ctx, f, i) })
	}
	return group.Wait()
}

func (n *Namespace) fillOne(ctx context.Context, f *Filling, i int) error {
	if _, err := n.CreateService(ctx, f.Service(i)); err != nil {
		return err
	}
	for _, family := range f.Families {
		if _, err := n.CreateSlice(ctx, f.Slice(i, family)); err != nil {
			return err
		}
	}
	return nil
}

// Service returns the i-th Service, before its ClusterIPs.
func (f *Filling) Service(i int) *corev1.Service {
	s := Service(f.Name(i), fillPort)
	s.Spec.Selector = nil
	if len(f.Families) == 1 {
		single := corev1.IPFamilyPolicySingleStack
		s.Spec.IPFamilyPolicy, s.Spec.IPFamilies = &single, []corev1.IPFamily{corev1.IPFamily(f.Families[0].String())}
	}
	return s
}

// Slice returns the slice of the i-th Service in a family, as [Namespace.Fill] created it,
// to be changed and passed to [Namespace.UpdateSlice].
func (f *Filling) Slice(i int, family model.Family) *discoveryv1.EndpointSlice {
	endpoints := make([]netip.Addr, f.Endpoints)
	for k := range endpoints {
		endpoints[k] = lab.After(fillBase[family], i*f.Endpoints+k)
	}
	s := Slice(fmt.Sprintf("%s-%s", f.Name(i), strings.ToLower(family.String())), f.Name(i), []corev1.ServicePort{fillPort}, f.Node, endpoints...)
	s.AddressType = discoveryv1.AddressType(family.String())
	return s
}

// fillBase are the first of many addresses that no host of a lab has.
var fillBase = [...]netip.Addr{model.IPv4: netip.MustParseAddr("10.128.0.0"), model.IPv6: netip.MustParseAddr("fd00:10:128::")}

// Name returns the name of the i-th Service.
func (f *Filling) Name(i int) string { return fmt.Sprintf("%s-%d", f.Prefix, i) }
