package diagnosis

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/nft"
)

// withServices returns a node with a folder of Services of every kind.
func withServices(t *testing.T) *scene {
	t.Helper()
	s := newScene(t, 3, 0)
	s.folder.Put("web",
		daemon.Service{
			Name: "web", Number: 1, Endpoints: s.servers, Ports: 2,
			Kinds: []model.Kind{model.KindNodePort, model.KindLoadBalancerIP, model.KindExternalIP}, LocalOutside: true,
			Sources: []string{"198.51.100.0/24", "2001:db8:51::/48"},
		},
		daemon.Service{Name: "sticky", Number: 2, Endpoints: s.servers, Affinity: time.Hour},
		daemon.Service{Name: "turns", Number: 3, Endpoints: s.servers, Scheduler: "rr"},
		daemon.Service{Name: "empty", Number: 4},
	)
	return s
}

// unprotected lets other programs change the tables.
const unprotected = "--protect-tables=false"

// manifests returns the flags with the proxy's configuration for a command.
func (s *scene) manifests(more ...string) []string {
	return append([]string{"--manifests", s.folder.Dir(), "--hostname-override", s.Node.Name, daemon.PodRanges}, more...)
}

// tamper changes the tables as another program.
func (s *scene) tamper(f model.Family) {
	s.t.Helper()
	labtest.Run(s.t, s.Node.Host, strings.ReplaceAll(
		"flush chain FAMILY kube-vmap service-check; add chain FAMILY kube-vmap intruder; flush map FAMILY kube-vmap endpoints-0",
		"FAMILY", nft.FamilyName(f)), "nft", "-f", "-")
}

func tamperedLines(f model.Family) []string {
	table := nft.FamilyName(f) + " kube-vmap "
	return []string{
		"- " + table + "chain intruder",
		"+ " + table + "chain service-check: ",
		"+ " + table + "map endpoints-0: ",
	}
}

// TestDiffOfUnchangedTablesIsEmpty also compares with the manifests without the ranges of pods, whose
// packets are then masqueraded, too.
func TestDiffOfUnchangedTablesIsEmpty(t *testing.T) {
	s := withServices(t)
	daemon.Start(t, s.Node, s.folder)
	for _, args := range [][]string{{"diff"}, append([]string{"diff"}, s.manifests()...)} {
		if output := s.run(args...); output.ExitCode != 0 || output.Stdout != "" {
			t.Errorf("%q: %+v", args, output)
		}
	}
	output := s.run("diff", "--manifests", s.folder.Dir(), "--hostname-override", s.Node.Name)
	if output.ExitCode != 1 || !strings.Contains(output.Stdout, "lb-") {
		t.Errorf("%+v", output)
	}
	if output := s.run("diff", "--nonsense"); output.ExitCode != 2 || !strings.Contains(output.Stderr, "--nonsense") {
		t.Errorf("a wrong flag: %+v", output)
	}
}

// TestDiffOfChangedTables changes them beside the proxy, which reverts that within a second, so that
// it may take several tries to see it, and after its end.
func TestDiffOfChangedTables(t *testing.T) {
	for _, f := range model.Families {
		t.Run(f.String(), func(t *testing.T) {
			s := withServices(t)
			d := daemon.Start(t, s.Node, s.folder, unprotected)
			d.Ignore("repaired tables changed by another program")
			eventually.Succeeds(t, "a difference beside the proxy", func() error {
				s.tamper(f)
				return differs(s.run("diff"), f)
			})
			d.Kill()
			s.tamper(f)
			output := s.run(append([]string{"diff"}, s.manifests(unprotected)...)...)
			if err := differs(output, f); err != nil || output.Stderr != "" {
				t.Errorf("%v, stderr %q", err, output.Stderr)
			}
			if other := nft.FamilyName(1 - f); strings.Contains(output.Stdout, other+" kube-vmap") {
				t.Errorf("of %s, which was not changed:\n%s", other, output.Stdout)
			}
		})
	}
}

// differs returns an error unless the command shows what tamper changed.
func differs(output daemon.Output, f model.Family) error {
	for _, line := range tamperedLines(f) {
		if output.ExitCode != 1 || !strings.Contains("\n"+output.Stdout, "\n"+line) {
			return fmt.Errorf("no line begins with %q: %s", line, output)
		}
	}
	return nil
}

// The rule sets of the running proxy, the kernel and the manifests are equal.
func TestRenderedRuleSetsAreEqual(t *testing.T) {
	s := withServices(t)
	d := daemon.Start(t, s.Node, s.folder, unprotected)
	wanted := lines(s.run("render").Stdout)
	if len(wanted) < 100 {
		t.Fatalf("the rule set has %d lines", len(wanted))
	}
	s.same("the kernel's", lines(s.kernelPart()), wanted)
	s.same("the manifests'", lines(s.run(append([]string{"render"}, s.manifests()...)...).Stdout), wanted)

	d.Kill()
	if output := s.run(append([]string{"diff"}, s.manifests(unprotected)...)...); output.ExitCode != 0 || output.Stdout != "" {
		t.Errorf("without the proxy: %+v", output)
	}
	before := s.kernelPart()
	if !strings.Contains(before, "does not make here with these flags") {
		t.Error("rules of other flags are not reported")
	}
	// The commands have the proxy's flags, some of which change things.
	for command, code := range map[string]int{"diff": 2, "render": 1} {
		for _, flag := range []string{"--cleanup", "--init-only", "--write-config-to=/nowhere"} {
			output := s.run(append([]string{command, flag}, s.manifests()...)...)
			if output.ExitCode != code || output.Stdout != "" || !strings.Contains(output.Stderr, "this command changes nothing") {
				t.Errorf("%s %s: %+v", command, flag, output)
			}
		}
	}
	if s.kernelPart() != before {
		t.Error("the tables have changed")
	}
}

// kernelPart returns the rule set of the kernel from a bundle.
func (s *scene) kernelPart() string {
	s.t.Helper()
	return unpack(s.t, strings.NewReader(s.run("bundle", "-o", "-").Stdout))["rules-kernel.nft"]
}

// lines returns the lines of a rule set with rules, elements and names, sorted.
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
	if diff := cmp.Diff(want, got); diff != "" {
		s.t.Errorf("%s differs (-want +got):\n%s", what, diff)
	}
}
