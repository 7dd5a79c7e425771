//go:build !race

// Simulated minutes are more than the race detector of Go 1.26 survives (ThreadSanitizer: CHECK
// failed in tsan_rtl.cpp). TestConcurrentUse is for it.

package passivehealth

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"kube-vmap/model"
)

// TestScripts runs testdata/*.txt, each for all families and protocols. A line is one of these, and
// what follows # is a comment. Endpoints are SERVICE/N, from 1.
//
//	service NAME N [in NAMESPACE] [PROTOCOL] [report]   a Service with endpoints, each on a node of its own
//	service NAME = ENDPOINT ...  [in NAMESPACE]         one whose slices name endpoints of others
//	grow SERVICE N                                      gives it more endpoints
//	idle SERVICE N                                      has N connections that stay open, without packets
//	uncounted                                           the kernel does not count connections
//	client NAME SERVICE every DURATION [low-ttl]        opens connections from now on
//	flood NAME SERVICE N                                has N connections that reach no endpoint
//	stop NAME                                           ends a client
//	policy SERVICE permits NAME ...                     drops other clients
//	policy SERVICE drops|prohibits|permits probes       the default is to permit them
//	local|dead|alive|lossy ENDPOINT ...                 on this node; without packets; loses probes for 3 s
//	walk DURATION                                       readings take so long, and more for entries
//	run DURATION                                        lets clients connect
//	within DURATION avoided ENDPOINT ...                the loop learns just these in time
//	expect avoided|ever|possibly ENDPOINT ...|none      now; at any time before; reported as possible
//	expect failed NAME PERCENT last DURATION            at most so many since the last fault; when the last one began
//	expect late DURATION|none                           readings are late, by at least as long
//	expect events N
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(err, "no scripts")
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			every(t, func(w *world) {
				s := &script{world: w}
				for i, line := range strings.Split(string(text), "\n") {
					line, _, _ = strings.Cut(line, "#")
					if words := strings.Fields(line); len(words) > 0 {
						if err := s.do(words[0], words[1:]); err != nil {
							t.Errorf("%s:%d: %s: %v", file, i+1, strings.TrimSpace(line), err)
						}
					}
				}
			})
		})
	}
}

type script struct {
	*world
	fault time.Time // when the last one began
}

func (s *script) do(command string, args []string) error {
	switch command {
	case "service":
		return s.addService(args)
	case "client":
		c := s.use(args[0], s.services[args[1]], duration(args[3]))
		c.lowTTL = slices.Contains(args, "low-ttl")
	case "flood":
		c := s.use(args[0], s.services[args[1]], time.Hour)
		c.lowTTL = true
		n, err := strconv.Atoi(args[2])
		for i := range n {
			s.connect(c, args[0], c.service.endpoints[i%len(c.service.endpoints)])
		}
		return err
	case "grow":
		n, err := strconv.Atoi(args[1])
		s.grow(s.services[args[0]], n)
		return err
	case "idle":
		n, err := strconv.Atoi(args[1])
		s.open(s.services[args[0]], n)
		return err
	case "uncounted":
		s.uncounted = true
	case "stop":
		delete(s.clients, args[0])
	case "policy":
		return s.policy(s.services[args[0]], args[1], args[2:])
	case "local", "dead", "alive", "lossy":
		return s.change(command, args)
	case "walk":
		s.readCost = duration(args[0])
	case "run":
		s.pass(duration(args[0]))
	case "within":
		got := func() bool { return s.avoided() == strings.Join(args[2:], " ") }
		if took := s.until(duration(args[0]), got); !got() {
			return fmt.Errorf("avoided %s after %s", s.avoided(), took)
		}
	case "expect":
		return s.expect(args[0], args[1:])
	default:
		return fmt.Errorf("no such command")
	}
	return nil
}

func duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(err)
	}
	return d
}

func (s *script) addService(args []string) error {
	namespace, protocol, name := "default", s.protocol, args[0]
	if i := slices.Index(args, "in"); i > 0 {
		namespace = args[i+1]
		args = slices.Delete(slices.Clone(args), i, i+2)
	}
	for _, p := range model.Protocols {
		if slices.Contains(args, p.String()) {
			protocol = p
		}
	}
	if args[1] == "=" {
		added := s.serve(namespace, name, protocol, 0)
		for _, e := range args[2:] {
			added.endpoints = append(added.endpoints, s.endpoint(e))
		}
		s.commit(added)
		return nil
	}
	n, err := strconv.Atoi(args[1])
	added := s.serve(namespace, name, protocol, n)
	if slices.Contains(args, "report") {
		added.mode = model.PassiveChecksReport
		s.commit(added)
	}
	return err
}

func (s *script) endpoint(name string) endpoint {
	service, number, _ := strings.Cut(name, "/")
	n, err := strconv.Atoi(number)
	if err != nil {
		panic(err)
	}
	return s.services[service].endpoints[n-1]
}

func (s *script) policy(of *service, verb string, args []string) error {
	for _, e := range of.endpoints {
		switch p := s.pods[e.addr.Addr()]; {
		case args[0] == "probes":
			p.noProbes, p.prohibits = verb == "drops", verb == "prohibits"
		case verb == "permits":
			p.permits = args
		default:
			return fmt.Errorf("no such policy")
		}
	}
	return nil
}

func (s *script) change(command string, names []string) error {
	for _, name := range names {
		of, _, _ := strings.Cut(name, "/")
		a := s.endpoint(name).addr.Addr()
		switch p := s.pods[a]; command {
		case "local":
			s.services[of].local = append(s.services[of].local, a)
			s.commit(s.services[of])
		case "lossy":
			p.lossyUntil = time.Now().Add(3 * time.Second)
		default:
			p.dead = command == "dead"
		}
	}
	s.fault = time.Now()
	for _, c := range s.clients {
		c.opened, c.failed = 0, 0
	}
	return nil
}

// names returns the names of endpoints, sorted.
func (s *script) names(list []netip.AddrPort) string {
	var out []string
	for name, service := range s.services {
		for i, e := range service.endpoints {
			if slices.Contains(list, e.addr) {
				out = append(out, fmt.Sprintf("%s/%d", name, i+1))
			}
		}
	}
	if len(out) == 0 {
		return "none"
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func (s *script) avoided() string {
	var list []netip.AddrPort
	for _, of := range s.received {
		list = append(list, of...)
	}
	return s.names(list)
}

func (s *script) expect(what string, args []string) error {
	var got string
	want := strings.Join(args, " ")
	switch what {
	case "avoided":
		got = s.avoided()
	case "ever":
		var list []netip.AddrPort
		for e := range s.ever {
			list = append(list, e)
		}
		got = s.names(list)
	case "possibly":
		var list []netip.AddrPort
		for _, u := range s.report().Endpoints {
			if u.Possibly {
				list = append(list, u.Endpoint)
			}
		}
		got = s.names(list)
	case "events":
		got = strconv.Itoa(len(s.events))
	case "late":
		late := s.report().Late
		if want == "none" && late > 0 || want != "none" && late < duration(want) {
			return fmt.Errorf("late by %s", late)
		}
		return nil
	case "failed":
		c := s.clients[args[0]]
		most, err := strconv.Atoi(args[1])
		if last := c.last.Sub(s.fault); 100*c.failed > most*c.opened || last > duration(args[3]) {
			return fmt.Errorf("%d of %d failed, the last one after %s", c.failed, c.opened, last)
		}
		return err
	default:
		return fmt.Errorf("nothing to expect")
	}
	if got != want {
		return fmt.Errorf("got %s", got)
	}
	return nil
}
