package cluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/traffic"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// healthAnswer is what a health check node port says.
type healthAnswer struct {
	Service             struct{ Namespace, Name string }
	LocalEndpoints      int
	ServiceProxyHealthy bool
}

// checkHealth asks as a load balancer does, from outside.
func checkHealth(ctx context.Context, from *lab.Host, at netip.AddrPort) (status int, weight string, body []byte, err error) {
	client := http.Client{
		Transport: &http.Transport{DialContext: from.DialContext, DisableKeepAlives: true},
		Timeout:   traffic.Timeout,
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s/healthz", at), http.NoBody)
	if err != nil {
		return 0, "", nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", nil, err
	}
	defer response.Body.Close()
	body, err = io.ReadAll(response.Body)
	return response.StatusCode, response.Header.Get("X-Load-Balancing-Endpoint-Weight"), body, err
}

// healthy waits until the node says at both addresses that it has so many endpoints
// of the Service.
func (c *twoNodes) healthy(t *testing.T, s *corev1.Service, n *lab.Node, endpoints int) {
	t.Helper()
	ctx := clustertest.Context(t)
	for _, f := range model.Families {
		clustertest.Must(t, eventually.Try(ctx, func() error {
			status, weight, body, err := checkHealth(ctx, c.Lab.Outside, n.AddrPort(f, uint16(s.Spec.HealthCheckNodePort)))
			if err != nil {
				return err
			}
			var a healthAnswer
			if err := json.Unmarshal(body, &a); err != nil {
				return fmt.Errorf("read %q: %w", body, err)
			}
			want := healthAnswer{LocalEndpoints: endpoints, ServiceProxyHealthy: true}
			want.Service.Namespace, want.Service.Name = s.Namespace, s.Name
			wanted := http.StatusServiceUnavailable
			if endpoints > 0 {
				wanted = http.StatusOK
			}
			if status != wanted || a != want || weight != fmt.Sprint(endpoints) {
				return fmt.Errorf("%s answers over %s with %d, %s and %s, want %d and %+v", n, f, status, weight, body, wanted, want)
			}
			return nil
		}))
	}
}

// closed waits until a health check node port is closed.
func (c *twoNodes) closed(t *testing.T, port int32, n *lab.Node) {
	t.Helper()
	ctx := clustertest.Context(t)
	for _, f := range model.Families {
		at := n.AddrPort(f, uint16(port))
		clustertest.Must(t, eventually.Try(ctx, func() error {
			a, err := c.Lab.Outside.Ask(model.TCP, at, traffic.Timeout)
			if err == nil && a.Outcome != lab.Refused {
				err = fmt.Errorf("%s/tcp: %s, want that it is refused", at, a)
			}
			return err
		}))
	}
}

// TestHealthCheckNodePortsFollowExternalTrafficPolicy has node ports of both
// nodes asked from outside before, between and after.
func TestHealthCheckNodePortsFollowExternalTrafficPolicy(t *testing.T) {
	t.Parallel()
	c := newTwoNodes(t, 2)
	outside := c.clients[4:]
	s := c.create(t, "policies", balanced, externalLocal)
	w := c.ns.NewWorkload("policies", c.At(c.Lab.Pods[0]), c.At(c.Lab.Pods[1]), c.At(c.Lab.RemotePods[0]))
	scale := func(n int) {
		ctx := clustertest.Context(t)
		clustertest.Must(t, w.Scale(ctx, n))
		clustertest.Must(t, c.ns.AwaitEndpoints(ctx, "policies", n))
		c.awaitRules(t)
	}
	if s.Spec.HealthCheckNodePort == 0 {
		t.Fatal("it has no health check node port")
	}
	near, far := c.both(s)[0], c.both(s)[1]
	local := func(here int) {
		t.Helper()
		c.healthy(t, s, c.Lab.Node, here)
		c.healthy(t, s, c.Lab.Remote, 0)
		from := near
		from.Check = seenAs(c.Lab.Outside)
		checkAnswered(t, outside, from, []string{"pod-1", "pod-2"}[:here]...)
		checkOutcome(t, outside, far, lab.TimedOut)
	}
	c.awaitRules(t)
	c.healthy(t, s, c.Lab.Node, 0)
	checkOutcome(t, outside, near, lab.Refused)
	scale(1)
	local(1)
	scale(2)
	local(2)

	c.change(t, "policies", externalCluster, func(s *corev1.Service) { s.Spec.HealthCheckNodePort = 0 })
	c.awaitRules(t)
	for i, n := range []*lab.Node{c.Lab.Node, c.Lab.Remote} {
		c.closed(t, s.Spec.HealthCheckNodePort, n)
		checkAnswered(t, outside, c.both(s)[i], "pod-1", "pod-2")
	}

	s = c.change(t, "policies", externalLocal, func(now *corev1.Service) { now.Spec.HealthCheckNodePort = s.Spec.HealthCheckNodePort })
	c.awaitRules(t)
	local(2)
	scale(3)
	c.healthy(t, s, c.Lab.Remote, 1)
	checkAnswered(t, outside, far, "remote-1")
	clustertest.Must(t, c.ns.DeleteService(clustertest.Context(t), "policies"))
	c.closed(t, s.Spec.HealthCheckNodePort, c.Lab.Node)
}
