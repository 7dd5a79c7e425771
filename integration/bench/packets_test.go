package bench

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/integration/bench/report"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/nft"
)

// floorRules translate with as little as possible.
const floorRules = `table %[1]s floor {
	map endpoints {
		type %[2]s . inet_proto . inet_service : %[2]s . inet_service
		elements = { %[3]s . udp . %[4]d : %[5]s . %[6]d }
	}
	chain translate {
		type nat hook prerouting priority dstnat; policy accept;
		dnat %[1]s to %[1]s daddr . meta l4proto . th dport map @endpoints
	}
}
`

// maxFloors is for each kind of packet how many times as long as by the floor's rules its way through
// ours may take, without the forwarding. One of an open connection has a reply, one-way ones do not.
// With another Service of the node that retries, the whole packet may take retries times as long.
var maxFloors = [...]struct {
	name          string
	most, retries float64
}{{"first", 1.45, 0}, {"one-way", 1.2, 0}, {"established", 1.25, 1.01}}

// BenchmarkPackets measures datagrams of 60 bytes (80 with IPv6) that a node forwards between two
// pods: as they are, translated by the floor's rules, and by ours with the settings of the daemon.
func BenchmarkPackets(b *testing.B) {
	plain, floor, ours, retries := newForwarder(b), newForwarder(b), newForwarder(b), newForwarder(b)
	for f, words := range [...][2]string{model.IPv4: {"ip", "ipv4_addr"}, model.IPv6: {"ip6", "ipv6_addr"}} {
		plain.to[f] = plain.endpoint(model.Family(f))
		floor.to[f] = serviceAt(model.Family(f))
		labtest.Run(b, floor.Node.Host, fmt.Sprintf(floorRules, words[0], words[1],
			floor.to[f].Addr(), servicePort, floor.endpoint(model.Family(f)).Addr(), podPort), "nft", "-f", "-")
	}
	ours.serve(b, false)
	retries.serve(b, true)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	rounds := 100
	if testing.Short() {
		rounds = 20
	}
	for range rounds {
		for _, f := range model.Families {
			for kind := range maxFloors {
				for _, r := range [...]*forwarder{plain, floor, ours, retries} {
					r.burst(b, f, kind)
				}
			}
		}
	}
	for _, f := range model.Families {
		for kind, k := range maxFloors {
			// The machine's other load only adds to a burst.
			forwarded := plain.took[f][kind].At(0)
			above := func(r *forwarder) time.Duration { return r.took[f][kind].At(0) - forwarded }
			report.Line(b, k.name+"/"+f.String(),
				report.Number("ns-forwarded", int(forwarded), 0), report.Number("ns-floor", int(above(floor)), 0),
				report.Number("ns-Service", int(above(ours)), 0),
				report.Ratio("x-floor-undisturbed", above(ours), above(floor), k.most),
				report.Ratio("x-retries-undisturbed", retries.took[f][kind].At(0), ours.took[f][kind].At(0), k.retries))
		}
	}
}

// A forwarder is a node with two pods.
type forwarder struct {
	*lab.Lab
	to   [len(model.Families)]netip.AddrPort
	fd   [len(model.Families)]int // of the first pod, for whole packets
	next [len(model.Families)]uint16
	took [len(model.Families)][len(maxFloors)]report.Times
}

func newForwarder(b *testing.B) *forwarder {
	b.Helper()
	r := &forwarder{Lab: labtest.New(b, lab.Options{Pods: 2})}
	for f := range r.fd {
		r.fd[f], r.next[f] = rawSocket(b, r.Pods[0].Host, model.Family(f)), 10_000
		must(b, r.Pods[1].Do(func() error { // nothing reads it: the datagrams end there
			fd, err := unix.Socket(domains[f], unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			b.Cleanup(func() { _ = unix.Close(fd) })
			return unix.Bind(fd, sockaddr(netip.AddrPortFrom(r.endpoint(model.Family(f)).Addr(), podPort)))
		}))
	}
	return r
}

func (r *forwarder) endpoint(f model.Family) netip.AddrPort { return r.Pods[1].AddrPort(f, podPort) }

// serviceAt is an address that no other Service of a cluster has.
func serviceAt(f model.Family) netip.AddrPort {
	const number = 60_000
	return netip.AddrPortFrom(lab.After(lab.ServiceRanges[f].Addr(), number), servicePort)
}

// serve programs the Service among others, one of which may retry.
func (r *forwarder) serve(b *testing.B, retries bool) {
	b.Helper()
	c := newCluster(clusterIP, size{1_000, 10})
	if retries {
		other := c.service(1)
		other.RetryRefused = true
		c.services.SetService(other)
	}
	last := c.size.services + 1
	service := c.service(last)
	service.ClusterIPs, service.Ports[0].Protocol = nil, model.UDP
	for _, f := range model.Families {
		r.to[f] = serviceAt(f)
		service.ClusterIPs = append(service.ClusterIPs, r.to[f].Addr())
		slice := c.slice(last, 1)
		slice.Name.Name, slice.Family, slice.Ports[0].Protocol = fmt.Sprint("packets-", f), f, model.UDP
		slice.Endpoints[0].Addr = r.endpoint(f).Addr()
		c.set(service, slice)
	}
	settings := config
	settings.CountConnections, settings.PassiveHealth = true, true
	k := labtest.Kernel(b, r.Node.Host)
	_, batch := nft.Adopt(settings, nft.Tables{}, c.all())
	_, err := k.Apply(batch)
	must(b, err)
}

// burst sends packets of a kind, each over a new connection if they are first ones.
func (r *forwarder) burst(b *testing.B, f model.Family, kind int) {
	b.Helper()
	const packets = 500
	port, step := uint16(1_000+kind), uint16(0)
	if kind == 0 {
		port, step = r.next[f], 1
		r.next[f] += packets
	}
	packet, at := datagram(netip.AddrPortFrom(r.Pods[0].Addr(f), port), r.to[f])
	to := sockaddr(netip.AddrPortFrom(r.to[f].Addr(), 0))
	send := func() error { return unix.Sendto(r.fd[f], packet, 0, to) }
	if kind > 0 {
		must(b, send())
	}
	if kind == 2 && len(r.took[f][kind]) == 0 {
		r.reply(b, f, port)
	}
	start := processorTime(b)
	for range packets {
		binary.BigEndian.PutUint16(packet[at:], port)
		must(b, send())
		port += step
	}
	r.took[f][kind].Add((processorTime(b) - start) / packets)
}

// processorTime is how long the thread has run. The kernel takes a packet on to the other pod before the
// system call that sends it returns.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var t unix.Timespec
	must(b, unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t))
	return time.Duration(t.Nano())
}

// reply sends a datagram from the endpoint to a port of the client.
func (r *forwarder) reply(b *testing.B, f model.Family, port uint16) {
	b.Helper()
	fd := rawSocket(b, r.Pods[1].Host, f)
	client := netip.AddrPortFrom(r.Pods[0].Addr(f), port)
	packet, _ := datagram(r.endpoint(f), client)
	must(b, unix.Sendto(fd, packet, 0, sockaddr(netip.AddrPortFrom(client.Addr(), 0))))
}

var domains = [...]int{model.IPv4: unix.AF_INET, model.IPv6: unix.AF_INET6}

// rawSocket opens a socket of a host for packets with their headers.
func rawSocket(b *testing.B, h *lab.Host, f model.Family) (fd int) {
	b.Helper()
	must(b, h.Do(func() (err error) {
		fd, err = unix.Socket(domains[f], unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
		return err
	}))
	b.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Addr: a.Addr().As4(), Port: int(a.Port())}
	}
	return &unix.SockaddrInet6{Addr: a.Addr().As16(), Port: int(a.Port())}
}

// datagram returns a packet of UDP without a checksum (RFC 768, RFC 791, RFC 8200), and where its source
// port is. The kernel adds the checksum of IPv4.
func datagram(from, to netip.AddrPort) (packet []byte, at int) {
	const header, payload = 8, 32
	if from.Addr().Is4() {
		packet = []byte{0x45, 0, 0, 20 + header + payload, 0, 0, 0, 0, 64, unix.IPPROTO_UDP, 0, 0}
	} else {
		packet = []byte{0x60, 0, 0, 0, 0, header + payload, unix.IPPROTO_UDP, 64}
	}
	packet = append(append(packet, from.Addr().AsSlice()...), to.Addr().AsSlice()...)
	at = len(packet)
	packet = binary.BigEndian.AppendUint16(packet, from.Port())
	packet = binary.BigEndian.AppendUint16(packet, to.Port())
	return append(packet, append([]byte{0, header + payload, 0, 0}, make([]byte, payload)...)...), at
}
