package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"kube-vmap/integration/bench/report"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/masquerade"
	"kube-vmap/model"
	"kube-vmap/nft/kernel"
)

const (
	// shortConnections is how many there are in each case, and quickConnections elsewhere than on
	// this machine, where a client then has quickPorts.
	shortConnections, quickConnections, quickPorts = 20_000, 4_000, 1024
	// stalled is a connection that waited for the first time-out of TCP or longer.
	stalled              = time.Second
	kubeProxyWay, ourWay = "masquerade fully-random", "kube-vmap"
)

// masqueradeWays are statements of nft, and our rule set.
var masqueradeWays = []string{"", "masquerade", kubeProxyWay, ourWay}

// masqueradeCase is who connects.
type masqueradeCase struct {
	name               string
	pods               int // that connect; the host outside if there are none
	addresses, workers int
	ports              int  // that each of them uses; 0 means the kernel's default
	scarce             bool // the port of a client is often another one's, too
	quick              bool // also on other kernels
}

var masqueradeCases = []masqueradeCase{
	{name: "one client", workers: 1, quick: true},
	{name: "a proxy with 1,024 ports", workers: 8, ports: 1024, quick: true},
	{name: "eight clients", pods: 8, workers: 8},
	{name: "eight, with the same 1,024 ports", pods: 8, workers: 8, ports: 1024, scarce: true, quick: true},
	{name: "200 addresses", addresses: 200, workers: 8},
	{name: "200, with the same 64 ports", addresses: 200, workers: 8, ports: 64, scarce: true},
}

// masquerade measures short connections that a node masquerades, by how it chooses the source
// port. Each has a lab of its own, so that no server remembers ports of the one before.
func (b *bench) masquerade() error {
	for _, f := range b.families() {
		s := b.Section(fmt.Sprintf("%d short connections over %s, closed by the server first, with a plain dnat and", b.shortCount(), familyText(f)),
			"", "", "p50", "p99", "p99.9", "took", "SYNs again", "stalled", "in TIME-WAIT", "insert_failed", "clashres", "drop")
		s.Note("kube-vmap: its rule set; in TIME-WAIT: SYNs that the server rejected (TcpExtPAWSTimewait, not counted by older kernels)")
		for _, c := range masqueradeCases {
			for _, way := range masqueradeWays {
				if b.quick && (!c.quick || way == "") || way == ourWay && c.pods > 0 { // pods are not masqueraded
					continue
				}
				if err := b.shortLived(s, f, c, way); err != nil {
					return fmt.Errorf("%s, %s: %w", c.name, way, err)
				}
			}
		}
	}
	return nil
}

func (b *bench) shortCount() int {
	if b.quick {
		return quickConnections
	}
	return shortConnections
}

func familyText(f model.Family) string {
	return map[bool]string{true: "IPv4", false: "IPv6"}[f == model.IPv4]
}

// shortLived adds a row of one case.
func (b *bench) shortLived(s *report.Section, f model.Family, c masqueradeCase, way string) (err error) {
	l, err := lab.New(lab.Options{Pods: 1 + c.pods})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	server, err := masquerade.Serve(l.Pods[0].Host, f)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	if b.quick && c.ports == 0 {
		c.ports = quickPorts
	}
	load, err := c.load(l, f)
	if err != nil {
		return err
	}
	load.Count = b.shortCount()
	if load.To, err = forwardBy(l, f, way); err != nil {
		return err
	}
	var r masquerade.Result
	grown, err := growth(append([]*lab.Host{l.Node.Host, l.Pods[0].Host}, load.Hosts...), func() (err error) {
		r, err = load.Run()
		return err
	})
	if err != nil {
		return err
	}
	stalls, latencies := 0, report.Times(r.Latencies)
	for _, l := range latencies {
		if l >= stalled {
			stalls++
		}
	}
	again := grown["TCPSynRetrans"]
	s.Add(c.name, wayText(way), latencies.Median(), latencies.At(0.99), latencies.At(0.999), r.Took, again, stalls,
		grown["PAWSTimewait"], grown["insert_failed"], grown["clashres"], grown["drop"])
	if way == ourWay && !c.scarce {
		b.Mark(stalls == 0 && again*10_000 <= load.Count, "SYNs sent again, "+c.name, again, kubeProxyWay, load.Count/10_000)
	}
	return nil
}

// load returns the connections of the case, without where to.
func (c masqueradeCase) load(l *lab.Lab, f model.Family) (load masquerade.Load, err error) {
	load.Workers = c.workers
	for _, p := range l.Pods[1:] {
		load.Hosts = append(load.Hosts, p.Host)
	}
	if c.pods == 0 {
		load.Hosts = []*lab.Host{l.Outside}
		load.From, err = outsideAddresses(l.Outside, f, c.addresses)
	}
	return load, errors.Join(err, limitPorts(load.Hosts, c.ports))
}

// growth runs fn, and returns by how much the counters of hosts grow.
func growth(hosts []*lab.Host, fn func() error) (masquerade.Counters, error) {
	before, err := countAll(hosts)
	if err == nil {
		err = fn()
	}
	if err != nil {
		return nil, err
	}
	after, err := countAll(hosts)
	if err != nil {
		return nil, err
	}
	for name, n := range before {
		after[name] -= n
	}
	return after, nil
}

// countAll returns the sums of the counters of hosts.
func countAll(hosts []*lab.Host) (masquerade.Counters, error) {
	sum := masquerade.Counters{}
	for _, h := range hosts {
		c, err := masquerade.Count(h)
		if err != nil {
			return nil, err
		}
		for name, n := range c {
			sum[name] += n
		}
	}
	return sum, nil
}

func wayText(way string) string {
	if way == "" {
		return "nothing"
	}
	return way
}

// forwardBy makes the node forward connections to the first pod, and returns the address.
func forwardBy(l *lab.Lab, f model.Family, way string) (netip.AddrPort, error) {
	pod := l.Pods[0]
	if way != ourWay {
		to := netip.AddrPortFrom(lab.ServiceRanges[f].Addr().Next(), servicePort)
		return to, masquerade.Forward(l.Node.Host, to, pod.AddrPort(f, masquerade.Port), way)
	}
	node := &labNode{lab: l, server: l.Pods[:1], family: f}
	err := l.Node.Do(func() (err error) { node.kernel, err = kernel.Open(kernel.Config{}); return err })
	if err != nil {
		return netip.AddrPort{}, err
	}
	if err = node.program(size{10, 10}); err == nil {
		err = node.kernel.Close()
	}
	return node.clusterIP(), err
}

// limitPorts makes hosts connect from that many ports only; 0 leaves them as they are.
func limitPorts(hosts []*lab.Host, ports int) error {
	for _, h := range hosts {
		if ports == 0 {
			continue
		}
		if err := setSysctl(h, "ipv4/ip_local_port_range", fmt.Sprintf("20000 %d", 20000+ports-1)); err != nil {
			return err
		}
	}
	return nil
}

// outsideAddresses gives the host outside that many addresses.
func outsideAddresses(h *lab.Host, f model.Family, n int) ([]netip.Addr, error) {
	if n == 0 {
		return nil, nil
	}
	if err := setSysctl(h, "ipv6/ip_nonlocal_bind", "1"); err != nil {
		return nil, err
	}
	out, err := h.Command(context.Background(), "ip", "route", "add", "local", manyClients[f].String(), "dev", "lo").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("add addresses: %w\n%s", err, out)
	}
	addrs := make([]netip.Addr, n)
	for i, a := 0, manyClients[f].Addr().Next(); i < len(addrs); i, a = i+1, a.Next() {
		addrs[i] = a
	}
	return addrs, nil
}

// manyClients are addresses of clients outside.
var manyClients = [...]netip.Prefix{
	model.IPv4: netip.MustParsePrefix("198.18.0.0/16"), model.IPv6: netip.MustParsePrefix("2001:db8:c::/112"),
}

func setSysctl(h *lab.Host, key, value string) error {
	return h.Do(func() error { return os.WriteFile(filepath.Join("/proc/sys/net", key), []byte(value), 0) })
}
