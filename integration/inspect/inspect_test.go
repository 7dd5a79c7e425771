package inspect

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
	"kube-vmap/nft"
)

func TestMain(m *testing.M) { os.Exit(daemon.Main(m)) }

// scene is a node with a folder of Services of every kind.
type scene struct {
	t      *testing.T
	lab    *lab.Lab
	folder *daemon.Folder
}

func newScene(t *testing.T) *scene {
	t.Helper()
	if err := lab.Missing(); err != nil {
		t.Skip(err)
	}
	l, err := lab.New(lab.Options{Pods: 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	var pods []*lab.Host
	for _, p := range l.Pods {
		pods = append(pods, p.Host)
	}
	s := &scene{t, l, daemon.NewFolder(t, l)}
	s.folder.Put("web",
		daemon.Service{
			Name: "web", Number: 1, Endpoints: pods, Ports: 2,
			Kinds: []model.Kind{model.KindNodePort, model.KindLoadBalancerIP, model.KindExternalIP}, LocalOutside: true,
			Sources: []string{"198.51.100.0/24", "2001:db8:51::/48"},
		},
		daemon.Service{Name: "sticky", Number: 2, Endpoints: pods, Affinity: time.Hour},
		daemon.Service{Name: "turns", Number: 3, Endpoints: pods, Scheduler: "rr"},
		daemon.Service{Name: "nobody", Number: 4},
	)
	return s
}

// unprotected has others able to change the tables.
const unprotected = "--protect-tables=false"

// run runs a command on the node.
func (s *scene) run(args ...string) daemon.Output {
	s.t.Helper()
	return daemon.Run(s.t, s.lab.Node.Host, args...)
}

// manifests are the flags by which a command knows what the proxy knows.
func (s *scene) manifests(more ...string) []string {
	return append([]string{"--manifests", s.folder.Dir(), "--hostname-override", s.lab.Node.Name, daemon.PodRanges}, more...)
}

// deface changes the tables behind the proxy's back.
func (s *scene) deface(f model.Family) {
	s.t.Helper()
	commands := strings.ReplaceAll(
		"flush chain FAMILY kube-vmap service-check; add chain FAMILY kube-vmap intruder; flush map FAMILY kube-vmap endpoints-0",
		"FAMILY", nft.FamilyName(f))
	if said, err := s.lab.Node.Command(s.t.Context(), "nft", commands).CombinedOutput(); err != nil {
		s.t.Fatalf("nft: %v: %s", err, said)
	}
}

// defaced are lines of the difference that deface makes.
func defaced(f model.Family) []string {
	table := nft.FamilyName(f) + " kube-vmap "
	return []string{
		"- " + table + "chain intruder",
		"+ " + table + "chain service-check: ",
		"+ " + table + "map endpoints-0: ",
	}
}

func TestThereIsNoDifferenceToWhatTheProxyWants(t *testing.T) {
	s := newScene(t)
	daemon.Start(t, s.lab.Node, s.folder)
	for _, args := range [][]string{{"diff"}, append([]string{"diff"}, s.manifests()...)} {
		if said := s.run(args...); said.ExitCode != 0 || said.Stdout != "" {
			t.Errorf("%q: %+v", args, said)
		}
	}
}

// Without the ranges of pods, what comes from them is masqueraded, too.
func TestOtherSettingsOfTheProxyArePrinted(t *testing.T) {
	s := newScene(t)
	daemon.Start(t, s.lab.Node, s.folder)
	said := s.run("diff", "--manifests", s.folder.Dir(), "--hostname-override", s.lab.Node.Name)
	if said.ExitCode != 1 || !strings.Contains(said.Stdout, "lb-") || !strings.Contains(said.Stderr, "difference: clusterCIDR: "+strings.TrimPrefix(daemon.PodRanges, "--cluster-cidr=")+"\n") {
		t.Errorf("%+v", said)
	}
}

func TestADifferenceIsShownAndToldByTheExitCode(t *testing.T) {
	for _, f := range model.Families {
		t.Run(f.String(), func(t *testing.T) {
			s := newScene(t)
			daemon.Start(t, s.lab.Node, s.folder, unprotected).Kill()
			s.deface(f)
			said := s.run(append([]string{"diff"}, s.manifests(unprotected)...)...)
			if said.ExitCode != 1 || said.Stderr != "" {
				t.Errorf("exit code %d, stderr %q", said.ExitCode, said.Stderr)
			}
			s.has(said.Stdout, defaced(f)...)
			if other := nft.FamilyName(1 - f); strings.Contains(said.Stdout, other+" kube-vmap") {
				t.Errorf("of %s, which nobody changed:\n%s", other, said.Stdout)
			}
		})
	}
}

// The proxy undoes what it sees within a second, so that what a command shows is a
// matter of luck, but it must be lucky soon.
func TestTheRunningProxyTellsWhatOthersChangedUntilItIsUndone(t *testing.T) {
	for _, f := range model.Families {
		t.Run(f.String(), func(t *testing.T) {
			s := newScene(t)
			d := daemon.Start(t, s.lab.Node, s.folder, unprotected)
			d.Ignore("repaired tables changed by another program")
			for range 20 {
				s.deface(f)
				if said := s.run("diff"); said.ExitCode == 1 {
					s.has(said.Stdout, defaced(f)...)
					return
				} else if said.ExitCode != 0 {
					t.Fatalf("%+v", said)
				}
				s.settled()
			}
			t.Error("never seen")
		})
	}
}

// settled waits until nobody sees a difference.
func (s *scene) settled() {
	s.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; <-time.After(100 * time.Millisecond) {
		if s.run("diff").ExitCode == 0 {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatal("not undone in 10s")
		}
	}
}

// has checks that lines are there which begin so.
func (s *scene) has(text string, want ...string) {
	s.t.Helper()
	lines := strings.Split(text, "\n")
	for _, prefix := range want {
		if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, prefix) }) {
			s.t.Errorf("no line begins with %q:\n%s", prefix, text)
		}
	}
}

func TestWithoutAProxyAndManifestsThereIsNothingToCompareWith(t *testing.T) {
	s := newScene(t)
	for _, command := range []string{"diff", "render"} {
		said := s.run(command)
		if want := map[string]int{"diff": 2, "render": 1}[command]; said.ExitCode != want || said.Stdout != "" {
			t.Errorf("%s: %+v", command, said)
		}
		if !strings.Contains(said.Stderr, "no kube-vmap answers on @kube-vmap in this network namespace") || strings.Count(said.Stderr, "\n") != 1 {
			t.Errorf("%s: %q", command, said.Stderr)
		}
	}
	if said := s.run("diff", "--nonsense"); said.ExitCode != 2 || !strings.Contains(said.Stderr, "--nonsense") {
		t.Errorf("a wrong flag: %+v", said)
	}
}

// What the proxy wants, what the kernel holds and what the manifests lead to is one
// and the same, so that whoever has one may read any of them.
func TestTheThreeRuleSetsAreOne(t *testing.T) {
	s := newScene(t)
	d := daemon.Start(t, s.lab.Node, s.folder)
	wanted := lines(s.run("render").Stdout)
	if len(wanted) < 100 {
		t.Fatalf("the rule set has %d lines", len(wanted))
	}
	held := s.run("render", "--kernel")
	s.same("the kernel's", lines(held.Stdout), wanted)
	s.same("the manifests'", lines(s.run(append([]string{"render"}, s.manifests()...)...).Stdout), wanted)

	d.Kill()
	said := s.run(append([]string{"render", "--kernel"}, s.manifests()[2:]...)...)
	s.same("the kernel's without the proxy", lines(said.Stdout), wanted)
	if said := s.run("render", "--kernel", "--masquerade-all"); !strings.Contains(said.Stdout, "does not make here with these flags") {
		t.Error("rules of other flags are taken for ours")
	}
}

// lines are those of a rule set which are rules, elements and names, sorted.
func lines(text string) []string {
	var out []string
	for l := range strings.Lines(text) {
		l = strings.TrimSpace(l)
		l = strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(l, "elements = { "), ","), " }")
		declares := strings.HasPrefix(l, "add table") || strings.HasPrefix(l, "delete table") || strings.HasPrefix(l, "table ") ||
			strings.HasPrefix(l, "counter ") || strings.HasPrefix(l, "packets ") || l == "}" || l == ""
		if !declares {
			out = append(out, l)
		}
	}
	slices.Sort(out)
	return out
}

func (s *scene) same(what string, got, want []string) {
	s.t.Helper()
	for _, l := range got {
		if !slices.Contains(want, l) {
			s.t.Errorf("%s has %q", what, l)
		}
	}
	for _, l := range want {
		if !slices.Contains(got, l) {
			s.t.Errorf("%s lacks %q", what, l)
		}
	}
}

// They share the proxy's flags, and some of those do something at once.
func TestCommandsThatLookChangeNothing(t *testing.T) {
	s := newScene(t)
	daemon.Start(t, s.lab.Node, s.folder).Kill()
	before := s.run("render", "--kernel").Stdout
	for command, code := range map[string]int{"diff": 2, "render": 1} {
		for _, flag := range []string{"--cleanup", "--init-only", "--write-config-to=/nowhere"} {
			said := s.run(append([]string{command, flag}, s.manifests()...)...)
			if said.ExitCode != code || said.Stdout != "" || !strings.Contains(said.Stderr, "this command changes nothing") {
				t.Errorf("%s %s: %+v", command, flag, said)
			}
		}
	}
	if s.run("render", "--kernel").Stdout != before || before == "" {
		t.Error("the tables are not what they were")
	}
}
