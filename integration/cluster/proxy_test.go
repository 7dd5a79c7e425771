package cluster_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/objects"
	"kube-vmap/integration/cluster/plane"
	"kube-vmap/integration/cluster/truth"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/process"
	"kube-vmap/model"
)

// TestKubeProxyServes runs kube-proxy instead of kube-vmap. It proves that the test cluster
// has all that a correct proxy needs.
func TestKubeProxyServes(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, lab.Options{Pods: 3})
	ctx := clustertest.Context(t)
	ns := c.Namespace(t)
	svc, err := ns.CreateService(ctx, objects.Service("web", objects.Ports(80, 8080)...))
	clustertest.Must(t, err)
	clustertest.Must(t, ns.NewWorkload("web", c.Places()[:2]...).Scale(ctx, 2))
	clustertest.Must(t, ns.AwaitEndpoints(ctx, "web", 2))
	for _, p := range c.Lab.Pods[:2] {
		clustertest.Must(t, p.ServeAll(8080))
	}
	program, err := plane.Program("kube-proxy")
	clustertest.Must(t, err)
	d := clustertest.Start(t, process.Config{
		Program: program, Host: c.Lab.Node.Host,
		Args: []string{
			"--proxy-mode=nftables", "--kubeconfig=" + c.Kubeconfig(t, c.Server), "--hostname-override=" + c.NodeName(c.Lab.Node),
			"--cluster-cidr=" + truth.PodRanges, "--conntrack-max-per-core=0",
			"--conntrack-tcp-timeout-established=0", "--conntrack-tcp-timeout-close-wait=0",
		},
	})
	awaitKubeProxy(t, d)
	for _, p := range model.Protocols {
		for _, f := range model.Families {
			to := netip.AddrPortFrom(netip.MustParseAddr(svc.Spec.ClusterIPs[f]), 80)
			answer, err := c.Lab.Pods[2].Ask(p, to, 5*time.Second)
			clustertest.Must(t, err)
			if answer.Outcome != lab.Answered || !strings.HasPrefix(answer.By, "pod-") {
				t.Errorf("%s/%s: %v, want an answer of a pod", to, p, answer)
			}
		}
	}
	cost, err := d.Cost()
	clustertest.Must(t, err)
	if cost.CPU <= 0 || cost.PeakRSS < cost.RSS || cost.RSS < 1<<20 || cost.Threads < 2 {
		t.Errorf("it costs %+v", cost)
	}
	if diff, err := (&truth.Truth{Client: c.Client, Config: truth.Config("node"), Host: c.Lab.Node.Host}).Diff(ctx); err != nil || diff == "" {
		t.Errorf("kube-proxy's rules are taken for ours, %v", err)
	}
	d.Kill() // it does not end on its own
}
