package main

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kube-vmap/cmd/inspect/exit"
	"kube-vmap/model"
)

// completions returns what shells are offered for a command line.
func completions(t *testing.T, line ...string) []string {
	t.Helper()
	var out bytes.Buffer
	root := rootCommand(&out, io.Discard)
	root.SetArgs(append([]string{"__completeNoDesc"}, line...))
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	words := strings.Split(strings.TrimSpace(out.String()), "\n")
	return slices.DeleteFunc(words, func(w string) bool { return strings.HasPrefix(w, ":") }) // a directive
}

func TestCompletionOffersCommandsFlagsAndValues(t *testing.T) {
	for _, c := range []struct{ line, want []string }{
		{[]string{"cl"}, []string{"cleanup"}},
		{[]string{"completion", ""}, []string{"bash", "fish", "powershell", "zsh"}},
		{[]string{"--detect-local-m"}, []string{"--detect-local-mode"}},
		{[]string{"--proxy-mode", ""}, []string{"iptables", "ipvs", "nftables"}},
		{[]string{"--detect-local-mode="}, []string{"BridgeInterface", "ClusterCIDR", "InterfaceNamePrefix", "NodeCIDR"}},
		{[]string{"render", "--ipvs-scheduler", ""}, []string{"lc", "mh", "random", "rr", "sh"}},
		{[]string{"get", "-o", ""}, []string{"json", "name", "wide", "yaml"}},
	} {
		if got := completions(t, c.line...); !slices.Equal(slices.Sorted(slices.Values(got)), c.want) {
			t.Errorf("kube-vmap %s is completed to %q, want %q", strings.Join(c.line, " "), got, c.want)
		}
	}
}

// TestCommandsFollowTheNameOfTheProxy, which decides on tables and the socket.
func TestCommandsFollowTheNameOfTheProxy(t *testing.T) {
	defer model.SetProxyName("")
	for line, want := range map[string]string{
		"render --manifests " + t.TempDir() + " --hostname-override=node-1": "table ip6 kube-vmap.edge {",
		"status":                       "@kube-vmap.edge",
		"status --status-socket=@none": "@none",
		"--manifests " + t.TempDir() + " --metrics-bind-address=": "--healthz-bind-address: ",
	} {
		var out bytes.Buffer
		if run(append(strings.Fields(line), "--service-proxy-name=edge"), &out, &out); !strings.Contains(out.String(), want) {
			t.Errorf("kube-vmap %s does not print %q:\n%s", line, want, out.String())
		}
	}
}

// TestUsageErrorsExitWithTrouble runs commands whose exit code 1 is an answer.
func TestUsageErrorsExitWithTrouble(t *testing.T) {
	for _, command := range []string{"explain", "diff"} {
		for _, word := range []string{"foo", "--foo"} {
			var out, errs bytes.Buffer
			if code := run([]string{command, word}, &out, &errs); code != exit.Trouble || !strings.Contains(errs.String(), "foo") || out.Len() > 0 {
				t.Errorf("kube-vmap %s %s: exit code %d, want %d; printed %q, %q", command, word, code, exit.Trouble, out.String(), errs.String())
			}
		}
	}
}

// TestFullDiskIsNoAnswer has a process that answers, and a full disk: what asks by the exit code of
// diff must not take an error for equal rule sets, or for different ones.
func TestFullDiskIsNoAnswer(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket) //nolint:noctx // it listens immediately
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"source":"daemon","services":[{"namespace":"default","name":"web"}]}`)
	})}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	for command, want := range map[string]int{"render": 1, "diff": exit.Trouble, "get svc": 1} {
		var stderr bytes.Buffer
		code := run(append(strings.Fields(command), "--status-socket", socket), full, &stderr)
		if code != want || !strings.HasSuffix(stderr.String(), "write /dev/full: no space left on device\n") {
			t.Errorf("%s: exit code %d, want %d; %q", command, code, want, &stderr)
		}
	}
}

func TestVersionIsPrinted(t *testing.T) {
	for word, want := range map[string]string{"version": "kube-vmap " + version, "--version": "kube-vmap version " + version} {
		var out, errs bytes.Buffer
		if code := run([]string{word}, &out, &errs); code != 0 || out.String() != want+"\n" || errs.Len() > 0 {
			t.Errorf("kube-vmap %s: exit code %d; printed %q, %q", word, code, out.String(), errs.String())
		}
	}
}

// TestPlainBuildPrintsTheCommit builds both programs without the linker's flags.
func TestPlainBuildPrintsTheCommit(t *testing.T) {
	head, err := exec.CommandContext(t.Context(), "git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		t.Skip("not in a Git repository: ", err)
	}
	commit := strings.TrimSpace(string(head))
	for folder, args := range map[string][]string{".": {"--version"}, "../kubectl-vmap": {"version", "--client"}} {
		program := filepath.Join(t.TempDir(), "program")
		// Build: what is tested. Only the package's limit, an hour in .ci/unit, includes it.
		if out, err := exec.CommandContext(t.Context(), "go", "-C", folder, "build", "-buildvcs=true", "-o", program, ".").CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", folder, err, out)
		}
		if out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput(); err != nil || !strings.Contains(string(out), commit) {
			t.Errorf("%s prints the version %q (%v), want commit %s", folder, out, err, commit)
		}
	}
}
