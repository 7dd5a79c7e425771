package matrix

import (
	"fmt"
	"strings"
	"testing"

	"kube-vmap/integration/eventually"
	"kube-vmap/model"
)

// TestPortsThatOtherNodesServeAreCounted has the Services of kube-proxy's
// TestNoEndpointsMetric at once, in the order of its cases.
func TestPortsThatOtherNodesServeAreCounted(t *testing.T) {
	s := newScene(t)
	s.cluster(serviceCIDR(), nodeObject())
	s.put(
		service{n: 1, internalLocal: true, endpoints: "pod-1 remote-1"},
		service{n: 2, externalLocal: true, endpoints: "pod-1 remote-1"},
		service{n: 3, internalLocal: true, externalLocal: true, endpoints: "pod-1 remote-1"},
		service{n: 4, internalLocal: true, endpoints: "remote-1"},
		service{n: 5, externalLocal: true, endpoints: "remote-1"},
		service{n: 6, internalLocal: true, externalLocal: true, endpoints: "remote-1 remote-2"},
		service{n: 7, internalLocal: true, externalLocal: true},
	)
	s.start(podRanges)
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
