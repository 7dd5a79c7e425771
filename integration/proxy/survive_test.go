package proxy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// connection is one that was made through a ClusterIP, and who answered first.
type connection struct {
	*lab.Flow
	name string
	way  way
	by   string
}

// connect makes a connection to the Service for every way and kind of client.
func connect(t *testing.T, l *lab.Lab, s service) []connection {
	t.Helper()
	var all []connection
	for _, w := range ways() {
		for _, from := range everyone(l) {
			c := connection{name: fmt.Sprintf("%s from %s", w, from), way: w}
			flow, err := from.Flow(w.protocol, freshPort(), s.at(w.family))
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

// stillAnswered checks that whoever answered first still does.
func stillAnswered(t *testing.T, all []connection) {
	t.Helper()
	for _, c := range all {
		a, err := c.Ask(answer)
		if err != nil || a.Outcome != lab.Answered || a.By != c.by {
			t.Errorf("%s: %s, %v, want an answer by %s", c.name, a, err, c.by)
		}
	}
}

// TestEstablishedConnectionsSurvive goes through what happens around a
// connection, one step after the other.
func TestEstablishedConnectionsSurvive(t *testing.T) {
	l := newLab(t)
	f := newFolder(t, l)
	w := watch(t, l.Node.Host)
	s := service{name: "web", address: 1, endpoints: "pod-1 pod-2"}
	f.put("web.yaml", s)
	d := start(t, l.Node, f.dir, podRanges)
	w.settles(f.dir, podRanges)
	all := connect(t, l, s)

	give := func(endpoints string) func() {
		return func() {
			s.endpoints = endpoints
			f.put("web.yaml", s)
		}
	}
	steps := []struct {
		says string
		do   func()
	}{
		{"another Service comes", func() { f.put("other.yaml", service{name: "other", address: 2, endpoints: "pod-1 pod-2 remote-1"}) }},
		{"another Service goes", func() { f.remove("other.yaml") }},
		{"an endpoint comes", give("pod-1 pod-2 remote-1")},
		{"an endpoint without connections goes", give("pod-1 pod-2")},
		{"the proxy is stopped", d.stop},
		{"the proxy starts again", func() { d = start(t, l.Node, f.dir, podRanges) }},
		{"the proxy is killed", func() { d.kill() }},
		{"the proxy starts with other flags", func() { start(t, l.Node, f.dir, podRanges, "--masquerade-all") }},
	}
	flags := []string{podRanges}
	for _, step := range steps {
		step.do()
		if step.says == "the proxy starts with other flags" {
			flags = append(flags, "--masquerade-all")
		}
		w.settles(f.dir, flags...)
		t.Run(step.says, func(t *testing.T) { stillAnswered(t, all) })
	}
}

// TestConnectionsToARemovedEndpointDrain leaves out UDP, which has no
// connections that an endpoint could bring to an end.
func TestConnectionsToARemovedEndpointDrain(t *testing.T) {
	l := newLab(t)
	f := newFolder(t, l)
	w := watch(t, l.Node.Host)
	s := service{name: "web", address: 1, endpoints: "pod-1"}
	f.write("cluster.yaml", text(t, cluster()...))
	f.put("web.yaml", s)
	start(t, l.Node, f.dir, podRanges)
	w.settles(f.dir, podRanges)
	all := slices.DeleteFunc(connect(t, l, s), func(c connection) bool { return c.way.protocol == model.UDP })

	give := func(endpoints string) func() {
		return func() {
			s.endpoints = endpoints
			f.put("web.yaml", s)
		}
	}
	for _, step := range []struct {
		says   string
		do     func()
		others string // what comes of new connections
	}{
		{"the endpoint terminates", give("pod-1/terminating pod-2"), "pod-2"},
		{"the endpoint is gone", give("pod-2"), "pod-2"},
		{"all endpoints are gone", give(""), isRefused},
		{"the Service is gone", func() { f.remove("web.yaml") }, isSilent},
	} {
		step.do()
		w.settles(f.dir, podRanges)
		t.Run(step.says, func(t *testing.T) {
			stillAnswered(t, all)
			for _, w := range ways() {
				newOnes(t, everyone(l), w, s.at(w.family), step.others)
			}
		})
	}
}

// newOnes checks what comes of new connections.
func newOnes(t *testing.T, all []*lab.Host, w way, to netip.AddrPort, result string) {
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
