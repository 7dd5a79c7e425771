package explain

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
	"kube-vmap/nft/simulate"
)

// TestBroadcastAndMulticastReachListenersOnly sends packets from the other node and
// compares the result with the prediction.
func TestBroadcastAndMulticastReachListenersOnly(t *testing.T) {
	r := newRig(t)
	r.serve(daemon.Service{Name: "web", Number: 1, Endpoints: r.servers})
	const port = 7777
	listeners := [2]net.PacketConn{}
	for f, network := range map[model.Family]string{model.IPv4: "udp4", model.IPv6: "udp6"} {
		r.must(r.Node.Do(func() (err error) {
			listeners[f], err = net.ListenPacket(network, fmt.Sprintf(":%d", port)) //nolint:noctx // it does not block
			return err
		}))
		defer listeners[f].Close()
	}
	for _, tc := range []struct {
		to   string
		want simulate.Verdict
		text string
	}{
		{"192.0.2.255", simulate.VerdictNotService, "a broadcast address; it stays on this node"},
		{"255.255.255.255", simulate.VerdictNotService, "a broadcast address; it stays on this node"},
		{"224.0.0.1", simulate.VerdictNotService, "a multicast address; it stays on this node"},
		{"239.1.1.1", simulate.VerdictUnreachable, "no program on this node has joined that group on eth0"},
		{"ff02::1", simulate.VerdictNotService, "a multicast address; it stays on this node"},
	} {
		to := netip.AddrPortFrom(netip.MustParseAddr(tc.to), port)
		p := simulate.Packet{From: r.Remote.Addr(model.FamilyOf(to.Addr())), To: to, Protocol: model.UDP}
		o := single(t, r.explain(p))
		if o.Verdict != tc.want || !strings.Contains(o.How, tc.text) || o.Verdict.Arrives() && !o.Endpoints[0].Local {
			t.Errorf("%s: %s, %q, %+v", p, o.Verdict, o.How, o.Endpoints)
		}
		if got := r.hears(r.Remote.Host, listeners[p.Family()], to); got != o.Verdict.Arrives() {
			t.Errorf("%s: it arrives: %t, predicted %s", p, got, o.Verdict)
		}
		for _, protocol := range []model.Protocol{model.TCP, model.SCTP} {
			for _, from := range []*lab.Host{r.Remote.Host, r.Node.Host} {
				p := simulate.Packet{From: from.Addr(model.FamilyOf(to.Addr())), To: to, Protocol: protocol}
				if o := single(t, r.explain(p)); o.Verdict != simulate.VerdictUnreachable {
					t.Errorf("%s: %s", p, o.Verdict)
				}
			}
		}
		err := r.Node.Do(func() error { return dial(scoped(to)) })
		if !errors.Is(err, syscall.ENETUNREACH) && !errors.Is(err, syscall.EINVAL) {
			t.Errorf("a connection to %s: %v", to, err)
		}
	}
}

// scoped adds the only link to a link-local address.
func scoped(to netip.AddrPort) netip.AddrPort {
	if to.Addr().Is6() {
		return netip.AddrPortFrom(to.Addr().WithZone("eth0"), to.Port())
	}
	return to
}

func dial(to netip.AddrPort) error {
	c, err := net.DialTimeout("tcp", to.String(), answer)
	if err != nil {
		return err
	}
	return c.Close()
}

// hears reports whether a packet of a host arrives at a listener.
func (r *rig) hears(from *lab.Host, at net.PacketConn, to netip.AddrPort) bool {
	r.t.Helper()
	text := to.String()
	r.must(from.Do(func() error {
		c, err := net.Dial("udp", scoped(to).String()) //nolint:noctx // it does not block
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Write([]byte(text))
		return err
	}))
	r.must(at.SetReadDeadline(time.Now().Add(10 * silence)))
	got := make([]byte, 64)
	n, _, err := at.ReadFrom(got)
	return err == nil && string(got[:n]) == text
}

// TestAddressWithoutNodePortsIsReported sends to a node port at an address of the node that
// does not serve node ports.
func TestAddressWithoutNodePortsIsReported(t *testing.T) {
	r := newRig(t)
	web := daemon.Service{Name: "web", Number: 1, Kinds: []model.Kind{model.KindNodePort}, Endpoints: r.servers}
	r.folder.Put("services", web)
	daemon.Start(t, r.Node, r.folder, "--nodeport-addresses", "primary")
	for f, other := range map[model.Family]string{model.IPv4: "10.244.1.1", model.IPv6: "fd00:10:244:1::1"} {
		at := web.AddrPort(r.Node, f, model.KindNodePort, 0)
		for _, p := range model.Protocols {
			want := fmt.Sprintf("%d/%s is the node port of default/web, and is served at %s; %s serves no node ports\n", at.Port(), p, at.Addr(), other)
			asked := netip.AddrPortFrom(netip.MustParseAddr(other), at.Port())
			r.expect(0, []string{"From the running kube-vmap:\n  " + want}, "--from="+r.Pods[3].Addr(f).String(), to(asked, p))
		}
	}
}
