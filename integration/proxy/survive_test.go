package proxy

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/integration/process"
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

// TestEstablishedConnectionsSurvive makes one change after the other, the last ones to the
// endpoints of the connections.
func TestEstablishedConnectionsSurvive(t *testing.T) {
	l, f := newScene(t)
	s := daemon.Service{Name: "web", Number: 1, EndpointSpec: "pod-1 pod-2"}
	f.Put("web", s)
	d := start(t, l, f)
	all := connect(t, l, s)

	after := func(change func()) func() { return func() { d.After(change) } }
	give := func(endpoints string) func() {
		return after(func() {
			s.EndpointSpec = endpoints
			f.Put("web", s)
		})
	}
	for _, step := range []struct {
		name string
		do   func()
	}{
		{"another Service comes", after(func() { f.Put("other", daemon.Service{Name: "other", Number: 2, EndpointSpec: "pod-1 pod-2 remote-1"}) })},
		{"another Service goes", after(func() { f.Remove("other") })},
		{"an endpoint comes", give("pod-1 pod-2 remote-1")},
		{"an endpoint without connections goes", give("pod-1 pod-2")},
		{"the proxy is stopped", func() { d.Stop() }},
		{"the proxy starts again", func() { d = start(t, l, f) }},
		{"the proxy is killed", func() { d.Kill() }},
		{"the proxy starts with other flags", func() { d = start(t, l, f, "--masquerade-all") }},
		{"UDP has no connections that an endpoint could end", func() {
			all = slices.DeleteFunc(all, func(c connection) bool { return c.transport.Protocol == model.UDP })
		}},
		{"the endpoints terminate", give("pod-1/terminating pod-2/terminating remote-1")},
		{"the endpoints are gone", give("remote-1")},
		{"all endpoints are gone", give("")},
		{"the Service is gone", after(func() { f.Remove("web") })},
	} {
		step.do()
		t.Run(step.name, func(t *testing.T) { stillAnswered(t, all) })
	}
}

// TestForeignEditsAreRepairedWhileRunning shows that edits are noticed without any
// change of manifests, and repaired by as few commands as possible.
func TestForeignEditsAreRepairedWhileRunning(t *testing.T) {
	l, f := newScene(t)
	s := daemon.Service{Name: "web", Number: 1, EndpointSpec: "pod-1 pod-2"}
	f.Put("web", s)
	d := start(t, l, f, "--protect-tables=false")
	nft := func(command string) { t.Helper(); labtest.Run(t, l.Node.Host, "", "nft", command) }
	for edit, objects := range map[string]int{
		"flush map ip kube-vmap endpoints-0": 0, "delete element ip6 kube-vmap services { fd00:10:96::1 . tcp . 80 }": 0,
		"flush chain ip kube-vmap nat-prerouting": -1, "delete table ip6 kube-vmap": -1, "flush ruleset": -1,
	} {
		from := d.Log.Len()
		nft(edit)
		e := d.Logged(from, "repaired tables changed by another program", func(process.Entry) bool { return true })
		if objects == 0 && (e.Number("objects") != 0 || e.Number("added") > 4) {
			t.Errorf("%s: the repair sent %v", edit, e)
		}
		only(t, l, s, "pod-1", "pod-2")
	}
	from, before := d.Log.Len(), generation(t, l)
	nft("add table inet elsewhere; add chain inet elsewhere foreign")
	<-time.After(1200 * time.Millisecond)
	if now := generation(t, l); now != before+1 {
		t.Errorf("another program's own table caused a write: generation %d became %d", before, now)
	}
	if repairs := d.Log.Find(from, "repaired tables changed by another program"); len(repairs) > 0 {
		t.Errorf("another program's own table counts as ours: %v", repairs)
	}
}

// TestUDPFlowFollowsItsService has clients that keep their source port, as DNS proxies and log
// senders do, while the only endpoint of their Service is replaced, goes and comes back.
func TestUDPFlowFollowsItsService(t *testing.T) {
	l, f := newScene(t)
	s := daemon.Service{Name: "web", Number: 1, EndpointSpec: "pod-1"}
	f.Put("web", s)
	start(t, l, f)
	var flows []*lab.Flow
	for _, family := range model.Families {
		for _, from := range everyone(l) {
			flow, err := from.Flow(model.UDP, netip.AddrPortFrom(netip.Addr{}, from.FreshPort()), s.ClusterAddrPort(family))
			if err != nil {
				t.Fatal(err)
			}
			flows = append(flows, flow)
		}
	}
	for _, endpoint := range []string{"pod-1", "pod-2", "", "pod-1"} {
		s.EndpointSpec = endpoint
		f.Put("web", s)
		want := lab.Answered
		if endpoint == "" {
			want = lab.Refused
		}
		for i, flow := range flows {
			eventually.Succeeds(t, "the flow goes where its Service does", func() error {
				a, err := flow.Ask(silence) // one that is on its way when its flow is deleted has no answer
				if err == nil && (a.Outcome != want || a.By != endpoint) {
					err = fmt.Errorf("flow %d: %s, want an answer by %q", i, a, endpoint)
				}
				return err
			})
		}
	}
}
