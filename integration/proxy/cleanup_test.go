package proxy

import (
	"bytes"
	"strings"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
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

// runNFT runs nft on a host and returns its output. Output on stderr fails the test.
func runNFT(t *testing.T, h *lab.Host, args ...string) string {
	t.Helper()
	cmd := h.Command(t.Context(), "nft", args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil || stderr.Len() > 0 {
		t.Fatalf("nft %s: %v\n%s", strings.Join(args, " "), err, &stderr)
	}
	return stdout.String()
}

func TestCleanupRemovesOnlyOurTables(t *testing.T) {
	l, f, w := newScene(t)
	s := daemon.Service{Name: "web", Number: 1, EndpointSpec: "pod-1 pod-2"}
	f.Put("web", s)
	runNFT(t, l.Node.Host, foreignTables)
	before := runNFT(t, l.Node.Host, "list", "ruleset")

	d := startAndSettle(t, w, l, f, daemon.PodRanges)
	s.EndpointSpec = "pod-1"
	f.Put("web", s)
	w.settles(f, daemon.PodRanges)
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
	if after := runNFT(t, l.Node.Host, "list", "ruleset"); after != before {
		t.Errorf("the rule set was\n%s\nand after cleanup is\n%s", before, after)
	}
	generation := w.generation()
	cleanup("nothing to remove", "cleanup")
	cleanup("nothing to remove", "--cleanup")
	if w.generation() != generation {
		t.Error("cleanup wrote although no tables were left")
	}
	runNFT(t, l.Node.Host, "add table ip6 kube-vmap")
	cleanup(`"level":"INFO","msg":"tables removed","tables":["ip6 kube-vmap"]`, "--cleanup", "--logging-format=json")
}
