package matrix

import (
	"fmt"
	"strings"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/model"
)

// TestPortsWithoutLocalEndpointsAreCounted has the Services of kube-proxy's
// TestNoEndpointsMetric in one list, in the order of its cases.
func TestPortsWithoutLocalEndpointsAreCounted(t *testing.T) {
	s := newScene(t)
	s.cluster(daemon.ServiceCIDR(), daemon.NodeObject(s.Node, ""))
	s.put(
		daemon.Service{Number: 1, LocalInside: true, EndpointSpec: "pod-1 remote-1"},
		daemon.Service{Number: 2, LocalOutside: true, EndpointSpec: "pod-1 remote-1"},
		daemon.Service{Number: 3, LocalInside: true, LocalOutside: true, EndpointSpec: "pod-1 remote-1"},
		daemon.Service{Number: 4, LocalInside: true, EndpointSpec: "remote-1"},
		daemon.Service{Number: 5, LocalOutside: true, EndpointSpec: "remote-1"},
		daemon.Service{Number: 6, LocalInside: true, LocalOutside: true, EndpointSpec: "remote-1 remote-2"},
		daemon.Service{Number: 7, LocalInside: true, LocalOutside: true},
	)
	s.start(daemon.PodRanges)
	want := 2 * len(model.Protocols) // ports of two Services, for either policy
	for _, policy := range []string{"internal", "external"} {
		for _, f := range model.Families {
			line := fmt.Sprintf("kubeproxy_sync_proxy_rules_no_local_endpoints_total{ip_family=%q,traffic_policy=%q} %d\n", f, policy, want)
			eventually.Succeeds(t, "the metric", func() error {
				page, err := s.Node.Get("http://127.0.0.1:10249/metrics", answer)
				if err == nil && !strings.Contains(page, line) {
					err = fmt.Errorf("there is no %s", line)
				}
				return err
			})
		}
	}
}
