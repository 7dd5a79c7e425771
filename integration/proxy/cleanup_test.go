package proxy

import (
	"strings"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/integration/process"
)

// foreignTables are tables of other programs, as similar to ours as possible.
var foreignTables = strings.Join([]string{
	"table ip kube-vmap-2 { chain nat-prerouting { type nat hook prerouting priority dstnat; counter; }; chain ep-0 { accept; }; }",
	"table inet kube-vmap { set cluster-ips { type ipv4_addr; elements = { 192.0.2.7 }; }; chain c { ip daddr @cluster-ips accept; }; }",
	"table arp kube-vmap { chain c { }; }",
	"table ip kube-proxy-other { map service-ips { type ipv4_addr . inet_proto . inet_service : verdict; }; }",
	"table ip6 filter { chain forward { type filter hook forward priority filter; policy accept; }; }",
}, "\n")

func TestCleanupRemovesOnlyOurTables(t *testing.T) {
	l, f := newScene(t)
	nft := func(command string) string { t.Helper(); return labtest.Run(t, l.Node.Host, "", "nft", command) }
	s := daemon.Service{Name: "web", Number: 1, EndpointSpec: "pod-1 pod-2"}
	f.Put("web", s)
	nft(foreignTables)
	before := nft("list ruleset")

	d := start(t, l, f)
	s.EndpointSpec = "pod-1"
	d.After(func() { f.Put("web", s) })
	e := d.Logged(0, "starting", func(process.Entry) bool { return true })
	if out := daemon.Run(t, l.Node.Host, "cleanup", "--force"); e["protected"] == "true" &&
		(out.ExitCode != 1 || !strings.Contains(out.Stderr, "belongs to another program")) {
		t.Errorf("cleanup beside the proxy: %v", out)
	}
	d.Stop()

	cleanup := func(want string, args ...string) {
		t.Helper()
		out := daemon.Run(t, l.Node.Host, args...)
		if out.ExitCode != 0 || out.Stdout != "" || strings.Count(out.Stderr, "\n") != 1 || !strings.Contains(out.Stderr, want) {
			t.Errorf("%v: %v, want %q in the log", args, out, want)
		}
	}
	cleanup(`level=INFO msg="tables removed" tables="[ip kube-vmap ip6 kube-vmap]"`, "cleanup", "--force")
	if after := nft("list ruleset"); after != before {
		t.Errorf("the rule set was\n%s\nand after cleanup is\n%s", before, after)
	}
	written := generation(t, l)
	cleanup("nothing to remove", "cleanup")
	cleanup("nothing to remove", "--cleanup")
	if generation(t, l) != written {
		t.Error("cleanup wrote although no tables were left")
	}
	nft("add table ip6 kube-vmap")
	cleanup(`"level":"INFO","msg":"tables removed","tables":["ip6 kube-vmap"]`, "--cleanup", "--logging-format=json")
}
