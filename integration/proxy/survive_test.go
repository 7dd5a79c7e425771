package proxy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// connection is a connection to a ClusterIP, and the host that answered first.
type connection struct {
	*lab.Flow
	name      string
	transport daemon.Transport
	by        string
}

// connect connects to the Service over every transport from every kind of client.
func connect(t *testing.T, l *lab.Lab, s daemon.Service) []connection {
	t.Helper()
	var all []connection
	for _, w := range daemon.Transports() {
		for _, from := range everyone(l) {
			c := connection{name: fmt.Sprintf("%s from %s", w, from), transport: w}
			flow, err := from.Flow(w.Protocol, netip.AddrPortFrom(netip.Addr{}, from.FreshPort()), s.ClusterAddrPort(w.Family))
			if err != nil {
				t.Fatal(err)
			}
			c.Flow = flow
			a, err := c.Ask(answer)
			if err != nil || a.Outcome != lab.Answered {
				t.Fatalf("%s: %s, %v", c.name, a, err)
			}
			c.by = a.By
			all = append(all, c)
		}
	}
	return all
}

// stillAnswered checks that the same hosts still answer.
func stillAnswered(t *testing.T, all []connection) {
	t.Helper()
	for _, c := range all {
		a, err := c.Ask(answer)
		if err != nil || a.Outcome != lab.Answered || a.By != c.by {
			t.Errorf("%s: %s, %v, want an answer by %s", c.name, a, err, c.by)
		}
	}
}

// TestEstablishedConnectionsSurvive makes one change after the other.
func TestEstablishedConnectionsSurvive(t *testing.T) {
	l, f, w := newScene(t)
	s := daemon.Service{Name: "web", Number: 1, EndpointSpec: "pod-1 pod-2"}
	f.Put("web", s)
	d := startAndSettle(t, w, l, f, daemon.PodRanges)
	all := connect(t, l, s)

	give := func(endpoints string) func() {
		return func() {
			s.EndpointSpec = endpoints
			f.Put("web", s)
		}
	}
	steps := []struct {
		name string
		do   func()
	}{
		{"another Service comes", func() { f.Put("other", daemon.Service{Name: "other", Number: 2, EndpointSpec: "pod-1 pod-2 remote-1"}) }},
		{"another Service goes", func() { f.Remove("other") }},
		{"an endpoint comes", give("pod-1 pod-2 remote-1")},
		{"an endpoint without connections goes", give("pod-1 pod-2")},
		{"the proxy is stopped", d.Stop},
		{"the proxy starts again", func() { d = start(t, l.Node, f, daemon.PodRanges) }},
		{"the proxy is killed", func() { d.Kill() }},
		{"the proxy starts with other flags", func() { start(t, l.Node, f, daemon.PodRanges, "--masquerade-all") }},
	}
	flags := []string{daemon.PodRanges}
	for _, step := range steps {
		step.do()
		if step.name == "the proxy starts with other flags" {
			flags = append(flags, "--masquerade-all")
		}
		w.settles(f, flags...)
		t.Run(step.name, func(t *testing.T) { stillAnswered(t, all) })
	}
}

// TestConnectionsToRemovedEndpointsDrain does not test UDP, which has no
// connections that an endpoint could end.
func TestConnectionsToRemovedEndpointsDrain(t *testing.T) {
	l, f, w := newScene(t)
	s := daemon.Service{Name: "web", Number: 1, EndpointSpec: "pod-1"}
	writeCluster(f, l)
	f.Put("web", s)
	startAndSettle(t, w, l, f, daemon.PodRanges)
	all := slices.DeleteFunc(connect(t, l, s), func(c connection) bool { return c.transport.Protocol == model.UDP })

	give := func(endpoints string) func() {
		return func() {
			s.EndpointSpec = endpoints
			f.Put("web", s)
		}
	}
	for _, step := range []struct {
		name   string
		do     func()
		others string // result of new connections
	}{
		{"the endpoint terminates", give("pod-1/terminating pod-2"), "pod-2"},
		{"the endpoint is gone", give("pod-2"), "pod-2"},
		{"all endpoints are gone", give(""), isRefused},
		{"the Service is gone", func() { f.Remove("web") }, isSilent},
	} {
		step.do()
		w.settles(f, daemon.PodRanges)
		t.Run(step.name, func(t *testing.T) {
			stillAnswered(t, all)
			for _, w := range daemon.Transports() {
				newOnes(t, everyone(l), w, s.ClusterAddrPort(w.Family), step.others)
			}
		})
	}
}

// newOnes checks the result of new connections.
func newOnes(t *testing.T, all []*lab.Host, w daemon.Transport, to netip.AddrPort, result string) {
	t.Helper()
	if result == isSilent {
		silent(t, all, w, to)
		return
	}
	for _, from := range all {
		if result == isRefused {
			refused(t, from, w, to)
		} else {
			answers(t, from, w, to, strings.Fields(result), nil)
		}
	}
}
