package cluster_test

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/objects"
	"kube-vmap/integration/cluster/traffic"
	"kube-vmap/integration/cluster/truth"
	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
	"kube-vmap/sync/looptest"
)

// silence is how long to wait for an answer that must not come.
const silence = 150 * time.Millisecond

// scaled creates a Pod of an app at each place, and waits until its Service has them on
// both nodes.
func (c *twoNodes) scaled(t *testing.T, app string, places ...objects.Place) {
	t.Helper()
	ctx := clustertest.Context(t)
	clustertest.Must(t, c.ns.NewWorkload(app, places...).Scale(ctx, len(places)))
	clustertest.Must(t, c.ns.AwaitEndpoints(ctx, app, len(places)))
	c.awaitRules(t)
}

func TestServicesFollowTheirPodsOnEveryNode(t *testing.T) {
	t.Parallel()
	c := newTwoNodes(t, 2)
	ctx := clustertest.Context(t)
	web := c.service(t, "web")
	w := c.ns.NewWorkload("web", c.At(c.Lab.Pods[0]), c.At(c.Lab.RemotePods[0]), c.At(c.Lab.RemotePods[1]))
	for _, s := range []struct {
		pods  int
		names string
	}{{1, "pod-1"}, {2, "pod-1 remote-1"}, {3, "pod-1 remote-1 remote-2"}, {1, "remote-2"}} {
		clustertest.Must(t, w.Scale(ctx, s.pods))
		clustertest.Must(t, c.ns.AwaitEndpoints(ctx, "web", s.pods))
		c.awaitRules(t)
		checkAnswered(t, c.clients, web, strings.Fields(s.names)...)
	}
	clustertest.Must(t, w.Scale(ctx, 0))
	// Before it is gone, the last one is terminating, and serves; and over UDP, what
	// has a port that was used before goes where it went.
	for _, from := range c.clients {
		clustertest.Must(t, eventually.Try(ctx, func() error { return from.Comes(web, lab.Refused, traffic.Timeout) }))
	}
	c.awaitRules(t)
	clustertest.Must(t, c.ns.DeleteService(ctx, "web"))
	clustertest.Must(t, c.ns.AwaitEndpoints(ctx, "web", 0))
	c.awaitRules(t)
	checkOutcome(t, c.clients, web, lab.TimedOut)
	for _, p := range c.proxies {
		if n := requests(t, p, "GET", "403"); n > 0 {
			t.Errorf("the proxy on %s asked %.0f times for what its account may not read", p.Truth.Host, n)
		}
	}
}

func TestReadyAndLastTerminatingPodsServe(t *testing.T) {
	t.Parallel()
	c := newTwoNodes(t, 1)
	ctx := clustertest.Context(t)
	near, far := c.At(c.Lab.Pods[0]), c.At(c.Lab.RemotePods[0])
	web := c.service(t, "web")
	ready := func(name string, at objects.Place, is bool) func() error {
		return func() error {
			_, err := c.ns.SetReady(ctx, name, at, is)
			return err
		}
	}
	for _, name := range []string{"near", "far"} {
		_, err := c.ns.CreatePod(ctx, name, "web", map[string]objects.Place{"near": near, "far": far}[name])
		clustertest.Must(t, err)
	}
	for _, s := range []struct {
		says      string
		do        func() error
		endpoints int // ready ones
		names     string
	}{
		{"both are ready", func() error { return nil }, 2, "pod-1 remote-1"},
		{"one is not ready", ready("near", near, false), 1, "remote-1"},
		{"none is ready", ready("far", far, false), 0, ""},
		{"one is ready again", ready("near", near, true), 1, "pod-1"},
		{"both are ready again", ready("far", far, true), 2, "pod-1 remote-1"},
		{"one terminates", func() error { return c.ns.TerminatePod(ctx, "near") }, 1, "remote-1"},
		{"both terminate", func() error { return c.ns.TerminatePod(ctx, "far") }, 0, "pod-1 remote-1"},
		{"one has ended", func() error { return c.ns.DeletePod(ctx, "far") }, 0, "pod-1"},
		{"a new one is ready", func() error { _, err := c.ns.CreatePod(ctx, "new", "web", far); return err }, 1, "remote-1"},
	} {
		clustertest.Must(t, s.do())
		clustertest.Must(t, c.ns.AwaitEndpoints(ctx, "web", s.endpoints))
		if s.names == "" {
			c.awaitRules(t)
			checkOutcome(t, c.clients, web, lab.Refused)
			continue
		}
		// Which endpoints terminate is not for AwaitEndpoints to see.
		for _, from := range c.clients {
			if err := from.AwaitAnswers(ctx, web, strings.Fields(s.names)...); err != nil {
				t.Fatalf("%s: %v", s.says, err)
			}
		}
		c.awaitRules(t)
	}
}

// TestServicesOfOtherProxiesAreIgnored reads the kernel's tables, because package truth
// uses the same selectors as the proxy.
func TestServicesOfOtherProxiesAreIgnored(t *testing.T) {
	t.Parallel()
	c := newTwoNodes(t, 1)
	ctx := clustertest.Context(t)
	// No other Pod has the addresses of the headless Service's Pod.
	nowhere := []netip.Addr{netip.MustParseAddr("10.244.2.77"), netip.MustParseAddr("fd00:10:244:2::77")}
	places := map[string]objects.Place{
		"headless": {Node: c.NodeName(c.Lab.Remote), Addrs: nowhere}, "labelled": c.At(c.Lab.RemotePods[0]),
	}
	headless := objects.Service("headless", objects.Ports(port, targetPort)...)
	headless.Spec.ClusterIP = corev1.ClusterIPNone
	external := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "external"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.com"},
	}
	labelled := objects.Service("labelled", objects.Ports(port, targetPort)...)
	labelled.Labels = map[string]string{"service.kubernetes.io/service-proxy-name": "another-proxy"}
	var made *corev1.Service
	for _, s := range []*corev1.Service{headless, external, labelled} {
		var err error
		made, err = c.ns.CreateService(ctx, s)
		clustertest.Must(t, err)
	}
	for app, at := range places {
		_, err := c.ns.CreatePod(ctx, app, app, at)
		clustertest.Must(t, err)
		clustertest.Must(t, c.ns.AwaitEndpoints(ctx, app, 1))
	}
	other := traffic.Service(made, port)
	mine := c.service(t, "mine") // once it is programmed, the earlier ones have been processed
	c.awaitRules(t)
	checkOutcome(t, []*traffic.Client{c.near, c.far}, mine, lab.Refused)
	checkOutcome(t, []*traffic.Client{c.near, c.far}, other, lab.TimedOut)
	for _, n := range []*lab.Node{c.Lab.Node, c.Lab.Remote} {
		text := meaning(t, n)
		for _, a := range append(nowhere, other.Addrs[:]...) {
			if strings.Contains(text, a.String()) {
				t.Errorf("%s has %s", n, a)
			}
		}
	}

	// Without the label the Service is ours, with it it is not.
	label := func(labels map[string]string) {
		_, err := c.ns.ChangeService(ctx, "labelled", func(s *corev1.Service) { s.Labels = labels })
		clustertest.Must(t, err)
		c.awaitRules(t)
	}
	label(nil)
	checkAnswered(t, []*traffic.Client{c.near, c.far}, other, "remote-1")
	label(labelled.Labels)
	checkOutcome(t, []*traffic.Client{c.near, c.far}, other, lab.TimedOut)
}

// meaning returns the node's rules in a form to compare. Rules that change all the time
// cannot be read.
func meaning(t *testing.T, n *lab.Node) string {
	t.Helper()
	for ctx := clustertest.Context(t); ; {
		tables, err := truth.Read(n.Host)
		if err == nil {
			return looptest.Summary(tables)
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

// TestServicesWithoutSelectorServeManualEndpoints creates an EndpointSlice for each family,
// or Endpoints, from which a controller creates slices. Endpoints have the Service's first
// family only.
func TestServicesWithoutSelectorServeManualEndpoints(t *testing.T) {
	t.Parallel()
	c := newTwoNodes(t, 2)
	ctx := clustertest.Context(t)
	none := func(s *corev1.Service) { s.Spec.Selector = nil }
	pods := []*lab.Pod{c.Lab.Pods[0], c.Lab.RemotePods[0], c.Lab.RemotePods[1]}
	addrs := func(f model.Family, n int) (out []netip.Addr) {
		for _, p := range pods[:n] {
			out = append(out, p.Addr(f))
		}
		return out
	}

	t.Run("EndpointSlices", func(t *testing.T) {
		to := c.service(t, "slices", none)
		for n, write := range []func(context.Context, model.Family, []netip.Addr) error{
			c.createSlice, c.updateSlice,
		} {
			for _, f := range model.Families {
				clustertest.Must(t, write(ctx, f, addrs(f, n+2)))
			}
			c.awaitRules(t)
			checkAnswered(t, c.clients, to, names(pods[:n+2])...)
		}
		for _, f := range model.Families {
			clustertest.Must(t, c.ns.DeleteSlice(ctx, sliceName(f)))
		}
		c.awaitRules(t)
		checkOutcome(t, c.clients, to, lab.Refused)
	})
	for _, f := range model.Families {
		t.Run("Endpoints of "+f.String(), func(t *testing.T) {
			name := "mirrored-" + strings.ToLower(f.String())
			to := c.service(t, name, none, func(s *corev1.Service) {
				s.Spec.IPFamilies[0], s.Spec.IPFamilies[1] = corev1.IPFamily(f.String()), corev1.IPFamily(model.Families[1-f].String())
			})
			for n := 1; n <= len(pods); n++ {
				clustertest.Must(t, c.writeEndpoints(ctx, name, addrs(f, n)))
				clustertest.Must(t, c.ns.AwaitEndpoints(ctx, name, n, f))
				c.awaitRules(t)
				for _, p := range model.Protocols {
					clustertest.Must(t, c.near.AnsweredOver(daemon.Transport{Protocol: p, Family: f}, to, names(pods[:n])...))
				}
			}
		})
	}
}

func names(pods []*lab.Pod) (out []string) {
	for _, p := range pods {
		out = append(out, p.Name)
	}
	return out
}

func sliceName(f model.Family) string { return "of-" + strings.ToLower(f.String()) }

func (c *twoNodes) createSlice(ctx context.Context, f model.Family, addrs []netip.Addr) error {
	_, err := c.ns.CreateSlice(ctx, objects.Slice(sliceName(f), "slices", objects.Ports(port, targetPort), "", addrs...))
	return err
}

func (c *twoNodes) updateSlice(ctx context.Context, f model.Family, addrs []netip.Addr) error {
	_, err := c.ns.UpdateSlice(ctx, objects.Slice(sliceName(f), "slices", objects.Ports(port, targetPort), "", addrs...))
	return err
}

// writeEndpoints creates or changes Endpoints.
func (c *twoNodes) writeEndpoints(ctx context.Context, name string, addrs []netip.Addr) error {
	all := &corev1.Endpoints{ //nolint:staticcheck // deprecated, and mirrored to this day
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Subsets:    []corev1.EndpointSubset{subset(objects.Ports(port, targetPort), addrs...)}, //nolint:staticcheck // as above
	}
	client := c.Client.CoreV1().Endpoints(c.ns.Name)
	_, err := client.Create(ctx, all, metav1.CreateOptions{})
	if err != nil {
		_, err = client.Update(ctx, all, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("write Endpoints %s: %w", name, err)
	}
	return nil
}

// subset has every port at every address.
func subset(ports []corev1.ServicePort, addrs ...netip.Addr) (s corev1.EndpointSubset) { //nolint:staticcheck // as above
	for _, a := range addrs {
		s.Addresses = append(s.Addresses, corev1.EndpointAddress{IP: a.String()})
	}
	for _, p := range ports {
		s.Ports = append(s.Ports, corev1.EndpointPort{Name: p.Name, Protocol: p.Protocol, Port: p.TargetPort.IntVal})
	}
	return s
}

// TestPortChangesReachPackets moves a Service to another port and its Pods'
// servers to another target.
func TestPortChangesReachPackets(t *testing.T) {
	t.Parallel()
	c := newTwoNodes(t, 1)
	ctx := clustertest.Context(t)
	web := c.service(t, "web")
	c.scaled(t, "web", c.At(c.Lab.RemotePods[0]))
	checkAnswered(t, c.clients, web, "remote-1")
	const other = 8081
	clustertest.Must(t, c.Lab.RemotePods[0].ServeAll(other))
	_, err := c.ns.ChangeService(ctx, "web", func(s *corev1.Service) {
		for i := range s.Spec.Ports {
			s.Spec.Ports[i].Port++
			s.Spec.Ports[i].TargetPort = intstr.FromInt32(other)
		}
	})
	clustertest.Must(t, err)
	moved := web
	moved.Port++
	for _, from := range c.clients {
		clustertest.Must(t, from.AwaitAnswers(ctx, moved, "remote-1"))
	}
	c.awaitRules(t)
	checkOutcome(t, c.clients, web, lab.Refused)
}
