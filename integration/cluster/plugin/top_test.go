package plugin_test

import (
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/objects"
	"kube-vmap/integration/cluster/plugin"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// patience is longer than anything takes that must come.
const patience = 20 * time.Second

// testTop has connections of a client on each of two nodes to a Service, which are added up.
func testTop(t *testing.T, c *plugin.Cluster) {
	ns := c.Namespace(t)
	ctx := clustertest.Context(t)
	server := c.Lab.ThirdPods[0]
	clustertest.Must(t, server.ServeAll(8080))
	_, err := ns.CreatePod(ctx, "web-1", "web", c.At(server))
	clustertest.Must(t, err)
	service, err := ns.CreateService(ctx, objects.Service("web", objects.Ports(80, 8080)...))
	clustertest.Must(t, err)
	c.AwaitRules(t)
	clients := []*lab.Pod{c.Lab.Pods[1], c.Lab.Pods[1], c.Lab.RemotePods[1]}
	made := 0
	for _, client := range clients {
		for _, f := range model.Families {
			for _, p := range model.Protocols {
				got, err := client.Ask(p, netip.AddrPortFrom(netip.MustParseAddr(service.Spec.ClusterIPs[f]), 80), patience)
				clustertest.Must(t, err)
				if got.Outcome != lab.Answered {
					t.Fatalf("%s over %s: %s", client, p, got)
				}
				made++
			}
		}
	}
	out := c.Kubectl(t, "vmap", "top", "-n", ns.Name)
	if out.Code != 0 || !strings.Contains(out.Stdout, "3 nodes") || !regexp.MustCompile(`web .* `+strconv.Itoa(made)+` `).MatchString(out.Stdout) {
		t.Errorf("%d connections were made: %s", made, out)
	}
}
