package matrix

import (
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// TestChecksumsAreChecked sends over UDP without checksums, which IPv4 allows: none may come in on
// the way. Then it spoils all checksums behind our rules, to show that hosts detect a wrong one:
// otherwise the matrix would not prove that ours are right. The destination of the first packet of
// a flow is written twice in the same hook: to the ClusterIP, and to the endpoint.
func TestChecksumsAreChecked(t *testing.T) {
	s := newScene(t)
	s.cluster(daemon.ServiceCIDR(), daemon.NodeObject(s.Node, ""))
	s.put(daemon.Service{Number: 1, EndpointSpec: "pod-1"}, daemon.Service{Number: 2, EndpointSpec: "remote-1"})
	s.start(daemon.PodRanges)
	for n, endpoint := range map[int]*lab.Host{1: s.Pods[0].Host, 2: s.RemotePods[0].Host} {
		for _, k := range usual {
			for _, from := range []*lab.Host{s.Outside, s.Node.Host} {
				to := k.at(model.IPv4, n)
				if sum, err := sendUnchecked(from, endpoint, to); err != nil || sum != 0 {
					t.Errorf("%s sends to %s, %s, without checksum: it arrives with %#04x, %v", from, to, k, sum, err)
				}
			}
		}
	}
	s.nft(`table inet spoil { chain late { type filter hook postrouting priority 200;
		udp dport 8080 @th,48,16 set 0x1234; tcp dport 8080 @th,128,16 set 0x1234; sctp dport 8080 @th,64,32 set 0x12345678; }; }`)
	s.check(t, asks([]*client{s.outside}, []kind{vip}, 1, isSilent))
}
