package config

import (
	"strings"
	"testing"
)

// TestFlagsOfDistributions starts with what distributions give to kube-proxy, where no file has it.
// The ones of k3s and RKE2 are from the line "Running kube-proxy" in their logs. Talos has flags or a file
// with the fields of kubeadm's.
func TestFlagsOfDistributions(t *testing.T) {
	const k3s = "--cluster-cidr=10.42.0.0/16 --conntrack-max-per-core=0 --conntrack-tcp-timeout-close-wait=0s " +
		"--conntrack-tcp-timeout-established=0s --healthz-bind-address=127.0.0.1 --hostname-override=node-1 " +
		"--kubeconfig=/var/lib/rancher/k3s/agent/kubeproxy.kubeconfig --proxy-mode=iptables"
	for name, c := range map[string]struct{ flags, clusterCIDR, health string }{
		"k3s":            {k3s, "10.42.0.0/16", "127.0.0.1:10256"},
		"k3s dual stack": {strings.Replace(k3s, "10.42.0.0/16", "10.42.0.0/16,fd42::/48", 1), "10.42.0.0/16,fd42::/48", "127.0.0.1:10256"},
		"RKE2":           {strings.ReplaceAll(k3s, "/k3s/", "/rke2/"), "10.42.0.0/16", "127.0.0.1:10256"},
	} {
		t.Run(name, func(t *testing.T) {
			got := load(t, strings.Fields(c.flags)...)
			if node, err := got.NodeName(); node != "node-1" || err != nil {
				t.Errorf("node %q, %v", node, err)
			}
			if got.Proxy.ClusterCIDR != c.clusterCIDR {
				t.Errorf("cluster CIDR %q", got.Proxy.ClusterCIDR)
			}
			if got.Proxy.HealthzBindAddress != c.health || got.Proxy.Mode != ModeIPTables {
				t.Errorf("health at %s, mode %s", got.Proxy.HealthzBindAddress, got.Proxy.Mode)
			}
			if c := got.Proxy.Conntrack; *c.MaxPerCore != 0 || c.TCPEstablishedTimeout.Duration != 0 || c.TCPCloseWaitTimeout.Duration != 0 {
				t.Errorf("connection tracking: %+v", c)
			}
		})
	}
}
