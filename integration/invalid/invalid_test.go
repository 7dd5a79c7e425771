package invalid

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
)

func TestMain(m *testing.M) { os.Exit(daemon.Main(m)) }

const (
	// much is what both ends have said before, so that there are old data.
	much = 200_000
	// far is beyond any window.
	far = 1 << 28
)

// odd are segments that a server may send in an established connection, told by
// what they differ in from the one that is due.
var odd = []struct {
	says string
	make func(due segment) segment
}{
	{"data of a moment ago", func(s segment) segment { s.seq -= 10; return s }},
	{"old data", func(s segment) segment { s.seq -= much / 2; return s }},
	{"data from before the connection", func(s segment) segment { s.seq -= far; return s }},
	{"data beyond the window", func(s segment) segment { s.seq += far; return s }},
	{"an acknowledgement of old data", func(s segment) segment { s.ack -= much / 2; s.payload = nil; return s }},
	{"an acknowledgement from before the connection", func(s segment) segment { s.ack -= far; s.payload = nil; return s }},
	{"an acknowledgement of what was never sent", func(s segment) segment { s.ack += far; s.payload = nil; return s }},
	{"a reset from beyond the window", func(s segment) segment { s.seq += far; s.flags = rst; s.payload = nil; return s }},
	{"flags that do not go together", func(s segment) segment { s.flags = syn | fin; s.payload = nil; return s }},
}

// service has one endpoint, pod-2, and is asked in every way that differs in what
// is translated and where the answers go.
func service(l *lab.Lab) daemon.Service {
	return daemon.Service{
		Name: "web", Number: 1, Endpoints: []*lab.Host{l.Pods[1].Host},
		Kinds: []model.Kind{model.KindNodePort, model.KindLoadBalancerIP}, LocalOutside: true,
	}
}

// client is who asks, and by which kind of address.
type client struct {
	says string
	host *lab.Host
	kind model.Kind
}

func clients(l *lab.Lab) []client {
	return []client{
		{"a pod", l.Pods[0].Host, model.KindClusterIP},
		{"the pod itself, masqueraded", l.Pods[1].Host, model.KindClusterIP},
		{"the node, masqueraded", l.Node.Host, model.KindClusterIP},
		{"somebody outside, masqueraded", l.Outside, model.KindClusterIP},
		{"somebody outside, by a load balancer", l.Outside, model.KindLoadBalancerIP},
		{"somebody outside, by a node port", l.Outside, model.KindNodePort},
	}
}

// TestDataBeyondTheWindowEndConnectionsWithoutAProxy shows that the others here
// test something. It also tells what this kernel does with each segment.
func TestDataBeyondTheWindowEndConnectionsWithoutAProxy(t *testing.T) {
	l := labtest.New(t, lab.Options{Pods: 2})
	daemon.RouteServices(t, l, l.Node)
	plain(t, l)
	fates(t, l, func(t *testing.T, says string, err error) {
		if says == "data beyond the window" && err == nil {
			t.Error("the connection survived, so that there is nothing to protect it from")
		}
		if err != nil {
			t.Logf("this kernel alone ends the connection: %v", err)
		}
	})
}

// TestConnectionsSurviveOddSegments does so with what the kernel does by itself,
// which since Linux 6.1 is enough for all but data that no window allows, and with
// --drop-invalid, which older kernels get unasked.
func TestConnectionsSurviveOddSegments(t *testing.T) {
	for says, flags := range map[string][]string{"by default": nil, "with --drop-invalid": {"--drop-invalid"}} {
		t.Run(says, func(t *testing.T) {
			l := labtest.New(t, lab.Options{Pods: 2})
			daemon.RouteServices(t, l, l.Node)
			f := daemon.NewFolder(t, l)
			f.Put("web", service(l))
			daemon.Start(t, l.Node, f, flags...)
			fates(t, l, func(t *testing.T, says string, err error) {
				if err != nil && (says != "data beyond the window" || flags != nil) {
					t.Errorf("the connection ended: %v", err)
				}
			})
		})
	}
}

// fates sends every segment in connections of every client, and hands on what
// became of each.
func fates(t *testing.T, l *lab.Lab, judge func(t *testing.T, says string, err error)) {
	strict(t, l.Node.Host)
	for _, f := range model.Families {
		port := listen(t, l.Pods[1].Host, l.Pods[1].AddrPort(f, daemon.TargetPort))
		for _, c := range clients(l) {
			for _, o := range odd {
				t.Run(fmt.Sprintf("%s/%s/%s", f, c.says, o.says), func(t *testing.T) {
					to := service(l).AddrPort(l.Node, f, c.kind, 0)
					judge(t, o.says, survives(t, newTalk(t, c.host, to, port), l.Pods[1].Host, o.make))
				})
			}
		}
	}
}

// survives reports how a connection ended in which the server sent an odd
// segment, or nil.
func survives(t *testing.T, k talk, server *lab.Host, odd func(segment) segment) error {
	t.Helper()
	question := fmt.Appendf(nil, "question of %s", k.peer())
	if err := k.pass(bytes.Repeat([]byte("x"), much)); err != nil {
		t.Fatalf("before: %v", err)
	}
	local := k.server.LocalAddr().(*net.TCPAddr).AddrPort()
	raw := newTap(t, server, local.Addr())
	if err := k.pass(question); err != nil {
		t.Fatalf("before: %v", err)
	}
	// The client's question tells how far both were; then the server spoke.
	last := raw.await(func(s segment) bool { return s.from == k.peer() && bytes.Equal(s.payload, question) })
	raw.send(odd(segment{
		from: local, to: k.peer(), flags: ack | psh, payload: []byte("odd"),
		seq: last.ack + uint32(len(question)), ack: last.next(),
	}))
	for range 3 {
		if err := k.pass(question); err != nil {
			return err
		}
		<-time.After(time.Millisecond) // for a reset that is on its way
	}
	return nil
}

// strict makes sure that the node's kernel does what it does by default.
func strict(t *testing.T, h *lab.Host) {
	t.Helper()
	var text []byte
	err := h.Do(func() (err error) {
		text, err = os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_tcp_be_liberal")
		return err
	})
	if err != nil || strings.TrimSpace(string(text)) != "0" {
		t.Fatalf("nf_conntrack_tcp_be_liberal of %s is %q, %v", h, text, err)
	}
}
