package takeover

import (
	"strings"
	"testing"
	"time"

	"kube-vmap/cmd/inspect/exit"
	"kube-vmap/integration/clients"
	"kube-vmap/integration/daemon"
)

// TestCleanupNeedsRulesThatServeInstead cleans up a node on which kube-proxy's rules are
// suspended, and lead nowhere or serve. No connection is lost at any time, over all
// protocols and both families.
func TestCleanupNeedsRulesThatServeInstead(t *testing.T) {
	t.Parallel()
	for mode, tc := range map[string]struct {
		load func(*probationer)
		edit func(p *probationer, serve bool)
	}{
		"nftables": {(*probationer).loadNFTables, (*probationer).editNFTables},
		"iptables": {(*probationer).loadIPTables, (*probationer).editIPTables},
	} {
		t.Run(mode, func(t *testing.T) {
			p := newProbationer(t)
			tc.load(p)
			p.awaitAnswers()
			p.suspendAlone()
			load := clients.Start(t, p.lab, p.services[:1], clients.Options{Pod: p.lab.Pods[2], Pace: 20 * time.Millisecond, AllFlows: true})
			p.start().Stop()
			tc.edit(p, false)
			p.refuses("with rules that lead nowhere", "kube-proxy's rules do not serve 4 of 4 addresses, such as from this node to default/")
			p.expect("with rules that lead nowhere", true, true, true, "probation until=")
			tc.edit(p, true)
			if out := daemon.Run(t, p.host, "cleanup"); out.ExitCode != 0 {
				t.Errorf("with rules that serve: %s", out)
			}
			p.expect("after the cleanup", true, false, false, "")
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
	p.expect("after the cleanup with force", false, false, false, "")
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
