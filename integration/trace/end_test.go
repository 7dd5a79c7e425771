package trace

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
	"kube-vmap/nft/foreign/trace"
)

// An end is something on the way of packets, and what a trace reports of them.
type end struct {
	name    string
	alone   bool // only on a bridge
	prepare func(*scene)
	port    uint16
	outcome lab.Outcome
	after   func(*scene) // packets were sent, and their paths are not complete; nil for nothing
	want    trace.Ending
	words   []string // of the description of the end
}

var ends = []end{
	{
		name: "rule of another program", prepare: script(`table inet firewall { chain forward { type filter hook forward priority 10; policy accept; jump pods; };
			chain pods { th dport 8080 counter drop comment "no web for pods"; }; }`),
		port: servicePort, outcome: lab.TimedOut, want: trace.EndingDropped,
		words: []string{"inet firewall forward at forward 10,", ":8080/", `rule of pods: th dport 8080 counter drop "no web for pods"`},
	},
	{
		name: "policy", prepare: script("table inet firewall { chain forward { type filter hook forward priority -5; policy drop; ip protocol icmp accept; }; }"),
		port: servicePort, outcome: lab.TimedOut, want: trace.EndingPolicyDrop,
		words: []string{"inet firewall forward at forward -5, drop true"},
	},
	{
		name:    "rule of iptables-nft", // which has the comment in a match
		prepare: iptables("nft", "-A", "FORWARD", "-m", "comment", "--comment", "not today", "-j", "DROP"),
		port:    servicePort, outcome: lab.TimedOut, want: trace.EndingDropped,
		words: []string{" filter FORWARD at forward", `"not today"`},
	},
	{
		// What drops the packet outside of nf_tables is not seen, but between which two points
		// it was lost is.
		name: "rule of iptables-legacy", prepare: iptables("legacy", "-A", "FORWARD", "-j", "DROP"),
		port: servicePort, outcome: lab.TimedOut, want: trace.EndingLostInHook, words: []string{" at forward"},
	},
	{
		name: "no route", prepare: func(s *scene) {
			for _, pod := range s.Pods[:2] {
				for _, f := range model.Families {
					s.run("ip", [...]string{"-4", "-6"}[f], "rule", "add", "to", pod.Addr(f).String(), "priority", "1", "blackhole")
				}
			}
		},
		port: servicePort, outcome: lab.TimedOut, want: trace.EndingLostAfterHook, words: []string{" at prerouting", "no route"},
	},
	{
		name: "no endpoint", prepare: func(*scene) {}, port: emptyPort, outcome: lab.Refused, want: trace.EndingRejected,
		words: []string{" kube-vmap ", "rule of reject-chain: ", "reject"},
	},
	{
		// No hook sees what the bridge itself drops, so the trace reports that it is not certain
		// whether the packet was lost.
		name: "hairpin off", alone: true,
		prepare: func(s *scene) { s.run("bridge", "link", "set", "dev", s.Pods[2].Link, "hairpin", "off") },
		port:    ownPort, outcome: lab.TimedOut, want: trace.EndingNotSeenAgain, words: []string{" at prerouting", "refusal: none"},
	},
	{
		name: "no neighbour", alone: true, prepare: closePods,
		port: servicePort, outcome: lab.TimedOut, want: trace.EndingLostAfterHook,
		words: []string{"refusal: no neighbour on " + lab.BridgeName + " answers for "},
	},
	{
		// The kernel may remove the entry of a neighbour that did not answer at any time.
		name: "forgotten neighbour", alone: true, prepare: closePods,
		after: func(s *scene) { s.run("ip", "neigh", "flush", "dev", lab.BridgeName) },
		port:  servicePort, outcome: lab.TimedOut, want: trace.EndingLostAfterHook,
		words: []string{"refusal: no neighbour on " + lab.BridgeName + " answers for "},
	},
	{
		// The packet waits on the bridge until the neighbour of its new destination is known.
		name: "unknown neighbour", alone: true, prepare: forgetPods,
		port: servicePort, outcome: lab.Answered, want: trace.EndingSent,
	},
	{
		name: "rule of a bridge table", alone: true, prepare: script(bridgeTable),
		port: remotePort, outcome: lab.TimedOut, want: trace.EndingDropped, words: []string{"bridge firewall input", `"not to the node"`},
	},
	{
		name: "bridge table that accepts", alone: true, prepare: script(bridgeTable),
		port: servicePort, outcome: lab.Answered, want: trace.EndingSent,
	},
}

const bridgeTable = `table bridge firewall { chain forward { type filter hook forward priority -200; accept; }; chain input {
	type filter hook input priority 0; meta l4proto { tcp, udp, sctp } drop comment "not to the node"; }; }`

func script(text string) func(*scene) { return func(s *scene) { s.nft(text) } }

// iptables returns a function that runs programs of iptables for both families, or skips the test
// if the kernel does not support it.
func iptables(backend string, args ...string) func(*scene) {
	return func(s *scene) {
		for _, family := range []string{"iptables-", "ip6tables-"} {
			out, err := s.Node.Command(s.t.Context(), family+backend, append([]string{"-w"}, args...)...).CombinedOutput()
			if err != nil {
				s.t.Skipf("%s%s: %v: %s", family, backend, err, out)
			}
		}
	}
}

func closePods(s *scene) {
	for _, pod := range s.Pods[:2] {
		s.must(pod.Close())
	}
	forgetPods(s)
}

func forgetPods(s *scene) {
	for _, pod := range s.Pods[:2] {
		for _, f := range model.Families {
			s.run("ip", "neigh", "flush", "to", pod.Addr(f).String())
		}
	}
}

// TestEndsAreNamed has pods on links of their own, and pods on a bridge that calls the hooks of
// IP.
func TestEndsAreNamed(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]lab.Options{"links": links, "bridge": bridge} {
		for _, tc := range ends {
			if tc.alone && !options.Bridge {
				continue
			}
			t.Run(name+"/"+strings.ReplaceAll(tc.name, " ", "-"), func(t *testing.T) {
				s := newSceneIn(t, options)
				tc.prepare(s)
				for w, path := range s.pathsOf(tc.port, tc.outcome, tc.after) {
					p, step := ended(t, path, tc.want)
					text := describe(path, p, step)
					for _, word := range tc.words {
						if !strings.Contains(text, word) {
							t.Errorf("%s: %q is missing in: %s", w, word, text)
						}
					}
					if step != nil && p.Chain.Table.Name == "firewall" && p.Chain.Table.Family == "inet" && tc.want == trace.EndingDropped &&
						!strings.Contains(s.nft("list table inet firewall"), fmt.Sprintf("%q # handle %d", step.Rule.Comment, step.Rule.Handle)) {
						t.Errorf("%s: no rule with handle %d", w, step.Rule.Handle)
					}
				}
			})
		}
	}
}

// describe returns a text about where a path ended.
func describe(path *trace.Path, p *trace.Visit, step *trace.Step) string {
	c := p.Chain
	text := fmt.Sprintf("%s %s at %s %d, drop %t, as %s", c.Table, c.Name, c.Hook, c.Priority, c.Drop, p.Packet)
	if step != nil {
		text += fmt.Sprintf(", rule of %s: %s %q", step.Chain, step.Rule.Text, step.Rule.Comment)
	}
	if path.Refusal == "" {
		return text + ", refusal: none"
	}
	return text + ", refusal: " + path.Refusal
}

// pathsOf follows one packet of each transport to a port, with this outcome, all at the same time.
// What comes after the packets, and before their paths are complete, may be nil.
func (s *scene) pathsOf(port uint16, want lab.Outcome, after func(*scene)) map[daemon.Transport]*trace.Path {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), timeout)
	defer cancel()
	patience := timeout
	if want == lab.TimedOut {
		patience = noAnswer
	}
	tracers := map[daemon.Transport]*trace.Tracer{}
	var questions errgroup.Group
	for _, w := range daemon.Transports() {
		p := s.packet(w, port)
		tracers[w] = s.open(trace.Config{Packet: p})
		questions.Go(func() error {
			a, err := s.client.Ask(w.Protocol, p.To, patience)
			if err == nil && a.Outcome != want {
				err = fmt.Errorf("%s to port %d: %s, want %s", w, port, a, want)
			}
			return err
		})
	}
	s.must(questions.Wait())
	if after != nil {
		after(s)
	}
	// None is closed before all are read: its table is a part of what the others follow.
	paths := map[daemon.Transport]*trace.Path{}
	var mu sync.Mutex
	var readers errgroup.Group
	for w, tracer := range tracers {
		readers.Go(func() error {
			path, err := tracer.NextPath(ctx)
			mu.Lock()
			defer mu.Unlock()
			paths[w] = path
			return err
		})
	}
	s.must(readers.Wait())
	for _, tracer := range tracers {
		s.must(tracer.Close())
	}
	return paths
}
