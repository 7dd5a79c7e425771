package traffic

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// Over returns the ways with one of the protocols.
func Over(protocols ...model.Protocol) []daemon.Transport {
	return slices.DeleteFunc(daemon.Transports(), func(w daemon.Transport) bool { return !slices.Contains(protocols, w.Protocol) })
}

// Target is the receiver of requests, at one port over every protocol.
type Target struct {
	Name  string
	Addrs [len(model.Families)]netip.Addr
	Port  uint16
}

// Service returns the ClusterIPs of a Service of both families as a target.
func Service(s *corev1.Service, port uint16) Target {
	t := Target{Name: s.Namespace + "/" + s.Name, Port: port}
	for i, f := range s.Spec.IPFamilies {
		for _, family := range model.Families {
			if string(f) == family.String() {
				t.Addrs[family] = netip.MustParseAddr(s.Spec.ClusterIPs[i])
			}
		}
	}
	return t
}

// NodePort returns the node port of a Service on a node as a target: that of its first
// port, and of all others with the same number.
func NodePort(s *corev1.Service, n *lab.Node) Target {
	return Target{
		Name:  fmt.Sprintf("node port of %s/%s on %s", s.Namespace, s.Name, n),
		Addrs: [...]netip.Addr{n.Addr(model.IPv4), n.Addr(model.IPv6)},
		Port:  uint16(s.Spec.Ports[0].NodePort),
	}
}

// At returns where the target is asked.
func (t *Target) At(f model.Family) netip.AddrPort { return netip.AddrPortFrom(t.Addrs[f], t.Port) }

// Client is a host that sends requests.
type Client struct {
	host *lab.Host
}

// From returns a host as a client.
func From(h *lab.Host) *Client { return &Client{host: h} }

// String returns the host's name.
func (c *Client) String() string { return c.host.Name }

// Timeout is the limit for a request: less than the second after which TCP retransmits.
const Timeout = 900 * time.Millisecond

// late is the limit for a request over UDP and SCTP, which are not sent again if they are lost. SCTP
// needs two answers of programs, which a busy machine may delay for more than [Timeout].
const late = 10 * time.Second

// Ask sends one request.
func (c *Client) Ask(w daemon.Transport, to netip.AddrPort) (lab.Answer, error) {
	if w.Protocol == model.TCP {
		return c.AskWithin(w, to, Timeout)
	}
	return c.AskWithin(w, to, late)
}

// AskWithin is [Client.Ask] with another timeout.
func (c *Client) AskWithin(w daemon.Transport, to netip.AddrPort, timeout time.Duration) (lab.Answer, error) {
	return c.host.AskFresh(w.Protocol, netip.Addr{}, to, timeout)
}
