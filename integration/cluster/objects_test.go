package cluster_test

import (
	"net/netip"
	"slices"
	"testing"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/objects"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

func TestControllersCreateEndpointSlicesOfPods(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, lab.Options{Pods: 2, RemotePods: 1})
	ctx := clustertest.Context(t)
	ns := c.Namespace(t)
	svc, err := ns.CreateService(ctx, objects.Service("web", objects.Ports(80, 8080)...))
	clustertest.Must(t, err)
	if len(svc.Spec.ClusterIPs) != 2 || len(svc.Spec.Ports) != len(model.Protocols) {
		t.Errorf("ClusterIPs %v and ports %v, want those of both families and all protocols", svc.Spec.ClusterIPs, svc.Spec.Ports)
	}
	for _, f := range model.Families {
		if ip, err := netip.ParseAddr(svc.Spec.ClusterIPs[f]); err != nil || !lab.ServiceRanges[f].Contains(ip) {
			t.Errorf("ClusterIP %s (%v) is not of the lab's range %s", ip, err, lab.ServiceRanges[f])
		}
	}
	want := func(places ...objects.Place) {
		t.Helper()
		clustertest.Must(t, ns.AwaitEndpoints(ctx, "web", len(places)))
		for _, f := range model.Families {
			var addrs []netip.Addr
			for _, p := range places {
				addrs = append(addrs, p.Addrs[f])
			}
			slices.SortFunc(addrs, netip.Addr.Compare)
			have, err := ns.Endpoints(ctx, "web", f)
			clustertest.Must(t, err)
			if !slices.Equal(have, addrs) {
				t.Errorf("%s endpoints %v, want %v", f, have, addrs)
			}
		}
	}
	places := c.Places()
	for i, name := range []string{"a", "b"} {
		_, err := ns.CreatePod(ctx, name, "web", places[i])
		clustertest.Must(t, err)
	}
	want(places[0], places[1])

	clustertest.Must(t, ns.DeletePod(ctx, "a"))
	want(places[1])
	_, err = ns.CreatePod(ctx, "c", "web", places[2])
	clustertest.Must(t, err)
	want(places[1], places[2])
	_, err = ns.SetReady(ctx, "b", places[1], false)
	clustertest.Must(t, err)
	want(places[2])
	clustertest.Must(t, ns.TerminatePod(ctx, "c"))
	want()
}

func TestDeletedServicesLoseTheirSlices(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, lab.Options{Pods: 1})
	ctx := clustertest.Context(t)
	ns := c.Namespace(t)
	_, err := ns.CreateService(ctx, objects.Service("web", objects.Ports(80, 8080)...))
	clustertest.Must(t, err)
	_, err = ns.CreatePod(ctx, "a", "web", c.At(c.Lab.Pods[0]))
	clustertest.Must(t, err)
	clustertest.Must(t, ns.AwaitEndpoints(ctx, "web", 1))
	clustertest.Must(t, ns.DeleteService(ctx, "web"))
	clustertest.Must(t, ns.AwaitEndpoints(ctx, "web", 0))
}

func TestWorkloadsScaleAndRoll(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, lab.Options{Pods: 3, RemotePods: 2})
	ctx := clustertest.Context(t)
	ns := c.Namespace(t)
	_, err := ns.CreateService(ctx, objects.Service("web", objects.Ports(80, 8080)...))
	clustertest.Must(t, err)
	w := ns.NewWorkload("web", c.Places()...)
	for _, n := range []int{4, 1, 3} {
		clustertest.Must(t, w.Scale(ctx, n))
		clustertest.Must(t, ns.AwaitEndpoints(ctx, "web", n))
	}
	before := w.Places()
	clustertest.Must(t, w.RollOne(ctx))
	if slices.ContainsFunc(w.Places(), func(p objects.Place) bool { return slices.Equal(p.Addrs, before[0].Addrs) }) {
		t.Error("the oldest Pod is still there")
	}
	clustertest.Must(t, w.Roll(ctx))
	clustertest.Must(t, ns.AwaitEndpoints(ctx, "web", 3))
	if err := w.Scale(ctx, 6); err == nil {
		t.Error("6 Pods at 5 places")
	}
}

func TestFillCreatesServicesAndSlices(t *testing.T) {
	t.Parallel()
	p := clustertest.Shared(t)
	ctx := clustertest.Context(t)
	ns, err := objects.NewNamespace(ctx, p.Client, "full")
	clustertest.Must(t, err)
	f := &objects.Filling{Services: 200, Prefix: "s", Endpoints: 10}
	clustertest.Must(t, ns.Fill(ctx, f))
	seen := map[netip.Addr]bool{}
	for _, i := range []int{0, 25, 26, 199} {
		clustertest.Must(t, ns.AwaitEndpoints(ctx, f.Name(i), 10))
		for _, family := range model.Families {
			have, err := ns.Endpoints(ctx, f.Name(i), family)
			clustertest.Must(t, err)
			for _, a := range have {
				if seen[a] {
					t.Errorf("%s has the endpoint %s of another Service", f.Name(i), a)
				}
				seen[a] = true
			}
		}
	}
	s := f.Slice(7, model.IPv6)
	s.Endpoints = s.Endpoints[:3]
	_, err = ns.UpdateSlice(ctx, s)
	clustertest.Must(t, err)
	clustertest.Must(t, ns.AwaitEndpoints(ctx, f.Name(7), 3, model.IPv6))
	clustertest.Must(t, ns.AwaitEndpoints(ctx, f.Name(7), 10, model.IPv4))
	clustertest.Must(t, ns.Delete(ctx))
}
