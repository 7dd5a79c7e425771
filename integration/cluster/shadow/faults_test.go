package shadow

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"kube-vmap/cmd/inspect/exit"
	"kube-vmap/cmd/inspect/shadow"
	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/integration/process"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/foreign/kubeproxy"
)

// A fault changes kube-proxy's rules of one Service port.
type fault struct {
	service daemon.Service
	seed    func(*theirs)
	kind    string // of the difference that must be found
	text    string // in it
}

// expected is the difference that must be found for a fault.
type expected struct{ service, kind, text string }

// faults are one for each Service, so that each must be named.
var faults = []fault{
	{daemon.Service{Name: "lacking", EndpointSpec: everywhere}, func(s *theirs) { // an endpoint is missing
		s.replaceMap(s.pods()[1:])
	}, shadow.KindEndpoints, "only here"},
	{daemon.Service{Name: "uneven", EndpointSpec: everywhere}, func(s *theirs) { // one endpoint twice
		s.replaceMap(append(s.pods(), s.Pods[0]))
	}, shadow.KindShares, "25 %"},
	{daemon.Service{Name: "marked", EndpointSpec: everywhere}, func(s *theirs) { // external addresses are no longer masqueraded
		external, service := s.chain("external"), s.chain("service")
		s.nft("flush chain " + s.table + " " + external)
		s.nft("add rule " + s.table + " " + external + " goto " + service)
	}, shadow.KindMasquerade, "sees the client"},
	{daemon.Service{Name: "ranged", EndpointSpec: everywhere, Sources: []string{"198.51.100.0/24", "2001:db8:9::/48"}}, func(s *theirs) { // another range
		firewall := s.chain("firewall")
		narrow := [...]string{model.IPv4: "ip saddr != { 198.51.100.0/25 }", model.IPv6: "ip6 saddr != { 2001:db8:9::/49 }"}
		s.nft("flush chain " + s.table + " " + firewall)
		s.nft("add rule " + s.table + " " + firewall + " " + narrow[s.family] + " drop")
	}, shadow.KindSourceRanges, "dropped"},
	{daemon.Service{Name: "nothing"}, func(s *theirs) { // connections to no endpoint are not refused
		s.nft("delete element " + s.table + " no-endpoint-services { " + s.service.Addr(s.family, model.KindExternalIP).String() + " . tcp . 80 }")
	}, shadow.KindVerdict, "rejected"},
	{daemon.Service{Name: "forgetful", EndpointSpec: everywhere, Affinity: time.Minute}, func(s *theirs) { // an endpoint's clients are not remembered
		s.deleteRule(s.chain("endpoint"), `update .*`)
	}, shadow.KindAffinity, "none"},
	{daemon.Service{Name: "ignored", EndpointSpec: everywhere, Affinity: time.Minute}, func(s *theirs) { // a remembered endpoint is not used
		s.deleteRule(s.chain("service"), `saddr @affinity.*`)
	}, shadow.KindAffinity, "not used"},
	{daemon.Service{Name: "itself", EndpointSpec: "pod-1"}, func(s *theirs) { // a pod that reaches itself is not masqueraded
		pod := s.Pods[0].Addr(s.family).String()
		s.nft(fmt.Sprintf("delete element %s hairpin-connections { %s . %s . tcp . 8080 }", s.table, pod, pod))
	}, shadow.KindMasquerade, "sees the client"},
	{daemon.Service{Name: "unserved", EndpointSpec: everywhere}, func(s *theirs) { // a node port is missing
		port := regexp.MustCompile(`tcp \. (\d+) : goto ` + s.chain("external")).FindStringSubmatch(s.nft("list map " + s.table + " service-nodeports"))
		s.nft("delete element " + s.table + " service-nodeports { tcp . " + port[1] + " }")
	}, shadow.KindVerdict, "not translated"},
}

// theirs are kube-proxy's rules of one family and Service.
type theirs struct {
	*rig
	family  model.Family
	table   string
	service daemon.Service
}

// pods are the endpoints of a Service that has them everywhere.
func (s *theirs) pods() []*lab.Pod { return slices.Concat(s.Pods[:2], s.RemotePods[:2]) }

// chain returns the name of a chain of the Service's TCP port, or of one of its endpoints.
func (s *theirs) chain(kind string) string {
	s.t.Helper()
	name := regexp.MustCompile(`\b` + kind + `-[A-Z2-7]{8}-default/` + s.service.Name + `/tcp/tcp(__[^\s"]+)?`)
	found := name.FindString(s.nft("list table " + s.table))
	if found == "" {
		s.t.Fatalf("there is no chain %s", name)
	}
	return found
}

// deleteRule deletes the rule of a chain that a regular expression matches.
func (s *theirs) deleteRule(chain, expression string) {
	rule := regexp.MustCompile(expression + ` # handle (\d+)`).FindStringSubmatch(s.nft("-a list chain " + s.table + " " + chain))
	s.nft("delete rule " + s.table + " " + chain + " handle " + rule[1])
}

// replaceMap replaces the rule that picks an endpoint by one with these pods.
func (s *theirs) replaceMap(pods []*lab.Pod) {
	var elements []string
	for i, p := range pods {
		elements = append(elements, fmt.Sprintf("%d : %s . 8080", i, p.Addr(s.family)))
	}
	chain := s.chain("service")
	s.nft("flush chain " + s.table + " " + chain)
	s.nft(fmt.Sprintf("add rule %s %s meta l4proto tcp dnat %s to numgen random mod %d map { %s }",
		s.table, chain, strings.Fields(s.table)[0], len(pods), strings.Join(elements, ", ")))
}

// TestEveryFaultIsFoundAndNamed changes a rule of each of several Services, in both families, which
// are suspended then.
func TestEveryFaultIsFoundAndNamed(t *testing.T) {
	t.Parallel()
	var services []daemon.Service
	for _, f := range faults {
		services = append(services, f.service)
	}
	number(services)
	for i := range services {
		services[i].ServicePorts = daemon.EveryProtocol("", daemon.Port, daemon.TargetPort, 31000+i)
	}
	r := newRig(t, "nftables", services)
	if report, _ := r.shadow(); len(unintended(report)) > 0 {
		t.Fatalf("before: %q", unintended(report))
	}
	r.stop()
	var want []expected
	for i, fault := range faults {
		for _, f := range model.Families {
			fault.seed(&theirs{rig: r, family: f, table: nft.FamilyName(f) + " kube-proxy", service: services[i]})
		}
		want = append(want, expected{fault.service.Name + ":tcp", fault.kind, fault.text})
	}
	r.wantOnly(want)
}

// wantOnly suspends kube-proxy's rules, compares, and checks that each of the expected differences is
// found in both families, and none of another Service.
func (r *rig) wantOnly(want []expected) {
	r.t.Helper()
	r.suspend()
	report, code := r.shadow()
	seeded := map[string]bool{}
	for _, e := range want {
		name := "default/" + e.service
		seeded[name] = true
		for _, f := range model.Families {
			if !slices.ContainsFunc(report.Differences, func(d shadow.Difference) bool {
				return d.Service == name && d.Kind == e.kind && d.Family == f.String() && strings.Contains(d.Ours+" / "+d.Theirs, e.text)
			}) {
				r.t.Errorf("%s: no difference of kind %s in %s", e.service, e.kind, f)
			}
		}
	}
	for _, d := range report.Differences {
		if !seeded[d.Service] {
			r.t.Errorf("%s differs without a fault: %+v", d.Service, d)
		}
	}
	if code != 1 || len(report.Dormant) != len(model.Families) || !strings.HasPrefix(report.Mode, r.mode) {
		r.t.Errorf("mode %s, exit code %d, dormant %v", report.Mode, code, report.Dormant)
	}
	if r.t.Failed() {
		r.t.Logf("%s", strings.Join(unintended(report), "\n"))
	}
}

// suspend suspends kube-proxy's rules. In iptables mode it adds the marker, too, which must not
// count as kube-proxy's nftables mode.
func (r *rig) suspend() {
	r.t.Helper()
	found, err := kubeproxy.Find(r.Node.FD())
	r.must(err)
	_, err = labtest.Kernel(r.t, r.Node.Host).Apply(found.Suspend())
	r.must(err)
	for _, f := range model.Families {
		if r.mode == "iptables" {
			r.nft("add table " + nft.FamilyName(f) + " kube-proxy")
			r.nft("add chain " + nft.FamilyName(f) + " kube-proxy marker")
		}
	}
}

// TestRulesForAllServicesAreCompared removes rules that all Services need, and adds what belongs to
// none, in dormant tables, while shadow runs. Then it removes what it could compare with.
func TestRulesForAllServicesAreCompared(t *testing.T) {
	t.Parallel()
	r := newRig(t, "nftables", []daemon.Service{{Name: "plain", Number: 1, EndpointSpec: everywhere, Kinds: daemon.Kinds}})
	r.folder.WriteObjects("all", r.objects...)
	if report, code := r.shadow("--master=", "--manifests="+r.folder.Dir()); code != 0 {
		t.Errorf("with manifests: exit code %d:\n%s", code, strings.Join(unintended(report), "\n"))
	}
	p, err := process.Start(t.Context(), process.Config{Program: daemon.Program(t), Host: r.Node.Host, Args: []string{
		"shadow", "--period=1s", "--master=http://" + apiAddress, "--hostname-override=node-1", "--proxy-mode=nftables", "--cluster-cidr=" + podRanges,
	}})
	r.must(err)
	t.Cleanup(func() { _ = p.Stop() })
	r.awaitCount(p, "0")
	r.stop()
	stale := [...]string{model.IPv4: "198.51.100.99", model.IPv6: "2001:db8:e::99"}
	for _, f := range model.Families {
		table := nft.FamilyName(f) + " kube-proxy"
		r.nft("flush chain " + table + " masquerading")
		r.nft("flush chain " + table + " cluster-ips-check")
		r.nft("add element " + table + " no-endpoint-services { " + stale[f] + " . udp . 53 : drop }")
		r.nft("add table " + table + " { flags dormant ; }")
	}
	r.awaitCount(p, "[1-9]")
	r.must(p.Stop())
	report, _ := r.shadow()
	if len(report.Dormant) != len(model.Families) {
		t.Errorf("dormant %v", report.Dormant)
	}
	for _, f := range model.Families {
		for what, kind := range map[string]string{
			"unused port": shadow.KindVerdict, stale[f]: shadow.KindVerdict, ":80/tcp": shadow.KindMasquerade,
		} {
			if !slices.ContainsFunc(report.Differences, func(d shadow.Difference) bool {
				return strings.Contains(d.Frontend, what) && d.Kind == kind && d.Family == f.String()
			}) {
				t.Errorf("no difference of kind %s at %s in %s:\n%s", kind, what, f, strings.Join(unintended(report), "\n"))
			}
		}
		r.nft("delete table " + nft.FamilyName(f) + " kube-proxy")
	}
	fails := func(text string, flags ...string) {
		t.Helper()
		out := daemon.Run(t, r.Node.Host, append([]string{"shadow", "--once", "--hostname-override=node-1"}, flags...)...)
		if out.ExitCode != exit.Trouble || !strings.Contains(out.Stderr, text) {
			t.Errorf("%s, want %s", out, text)
		}
	}
	fails(shadow.ErrNoRules.Error(), "--manifests="+r.folder.Dir())
	if text, err := r.command("iptables-legacy", "-t", "nat", "-N", "KUBE-SERVICES"); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	fails(shadow.ErrLegacy.Error(), "--manifests="+r.folder.Dir())
	fails("not loaded within 100ms", "--timeout=100ms", "--master=http://127.0.0.1:1")
}

// awaitCount waits until a running shadow counts so many differences in masquerading, where it serves
// by default.
func (r *rig) awaitCount(p *process.Process, count string) {
	r.t.Helper()
	want := regexp.MustCompile(`kubevmap_shadow_differences{kind="masquerade"} ` + count)
	r.must(p.Within(r.t.Context(), patience, "a count "+count, func() error {
		text, err := r.Node.Get("http://127.0.0.1:10349/metrics", patience)
		if err == nil && !want.MatchString(text) {
			err = fmt.Errorf("no %s in\n%s", want, text)
		}
		return err
	}))
}
