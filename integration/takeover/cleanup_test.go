package takeover

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"kube-vmap/cmd/inspect/exit"
	"kube-vmap/integration/clients"
	"kube-vmap/integration/daemon"
	"kube-vmap/model"
	"kube-vmap/nft"
)

// TestCleanupNeedsRulesThatServeInstead cleans up a node on which kube-proxy's rules are
// suspended, and lead nowhere or serve. No connection is lost at any time, over all
// protocols and both families.
func TestCleanupNeedsRulesThatServeInstead(t *testing.T) {
	t.Parallel()
	for mode, tc := range map[string]struct {
		load           func(*probationer)
		spoil, restore func(*probationer)
	}{
		"nftables": {
			(*probationer).loadNFTables,
			func(p *probationer) {
				p.editNFTables(func(family, _ string) string { return "flush chain " + family + " kube-proxy their-services" })
			},
			func(p *probationer) {
				p.editNFTables(func(family, rule string) string { return "add rule " + family + " kube-proxy their-services " + rule })
			},
		},
		"iptables": {
			func(p *probationer) { p.loadIPTables(nftBackend) }, func(p *probationer) { p.editIPTables("-D") },
			func(p *probationer) { p.editIPTables("-A") },
		},
	} {
		t.Run(mode, func(t *testing.T) {
			p := newProbationer(t)
			tc.load(p)
			p.awaitAnswers()
			load := clients.Start(t, p.lab, p.services[:1], clients.Options{Pod: p.lab.Pods[2], Pace: 20 * time.Millisecond, AllFlows: true})
			p.start().Stop()
			tc.spoil(p)
			p.refuses("with rules that lead nowhere", "4 of 4 addresses do not answer through kube-proxy's rules, such as default/")
			p.expect("with rules that lead nowhere", nftBackend, true, true, true, "probation until=")
			tc.restore(p)
			if out := daemon.Run(t, p.host, "cleanup"); out.ExitCode != 0 {
				t.Errorf("with rules that serve: %s", out)
			}
			p.expect("after the cleanup", nftBackend, true, false, false, "")
			p.start("--probation=1s", "--kube-proxy-marker=never").AwaitMessage(removedMessage)
			load.Stop(t, 100)
		})
	}
}

// TestCleanupWithoutKubeProxyIsRefused has no rules of kube-proxy.
func TestCleanupWithoutKubeProxyIsRefused(t *testing.T) {
	p := newProbationer(t)
	p.start().Stop()
	p.awaitAnswers()
	before := p.listing(nftBackend)
	p.refuses("without rules of kube-proxy", "kube-proxy has no rules for IPv4 here")
	same(t, "listings before and after", counts.ReplaceAllString(p.listing(nftBackend), ""), counts.ReplaceAllString(before, ""))
	p.awaitAnswers()
	if out := daemon.Run(t, p.host, "cleanup", "--force"); out.ExitCode != 0 || !strings.Contains(out.Stderr, "tables removed") {
		t.Errorf("with force: %s", out)
	}
	p.expect("after the cleanup with force", nftBackend, false, false, false, "")
}

// editNFTables runs a command of nft for each address, given its family and rule.
func (p *probationer) editNFTables(command func(family, rule string) string) {
	p.t.Helper()
	text := ""
	p.forwards(func(f model.Family, protocol, ip, endpoint string) {
		text += command(nft.FamilyName(f), fmt.Sprintf("%s daddr %s %s dport 80 dnat to %s", nft.FamilyName(f), ip, protocol, endpoint)) + "\n"
	})
	p.run(text, "nft", "-f", "-")
}

// editIPTables adds or deletes the rules of all addresses.
func (p *probationer) editIPTables(verb string) {
	p.t.Helper()
	var nat [len(model.Families)]string
	p.forwards(func(f model.Family, protocol, ip, endpoint string) {
		nat[f] += fmt.Sprintf("%s KUBE-SERVICES -d %s -p %s -m %[3]s --dport 80 -j DNAT --to-destination %s\n", verb, ip, protocol, endpoint)
	})
	for _, f := range model.Families {
		p.machine.loadIPTables(nftBackend, f, "*nat\n"+nat[f]+"COMMIT\n")
	}
}

// refuses checks that a cleanup is refused, by both of its forms.
func (p *probationer) refuses(when, why string) {
	p.t.Helper()
	for _, form := range []string{"cleanup", "--cleanup"} {
		out := daemon.Run(p.t, p.host, form)
		if out.ExitCode != exit.Refused || !strings.Contains(out.Stderr, why) || !strings.Contains(out.Stderr, "start kube-proxy here") {
			p.t.Errorf("%s: %s", when, out)
		}
	}
}
