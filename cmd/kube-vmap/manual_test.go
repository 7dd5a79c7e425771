package main

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kube-vmap/cmd/kube-vmap/man"
)

var update = flag.Bool("update", false, "rewrite the manual pages") //nolint:gochecknoglobals // a flag

// manuals is the folder of the pages.
const manuals = "../../deploy/man"

// manual returns the source of the pages.
func manual() man.Manual {
	return man.Manual{
		Root: rootCommand(io.Discard, io.Discard),
		Files: []man.File{
			{Path: "/etc/kube-vmap/config.conf", Meaning: "Where the DaemonSet has the configuration, a KubeProxyConfiguration; elsewhere, whatever --config names."},
			{Path: "/etc/kube-vmap/kubeconfig.conf", Meaning: "Where the DaemonSet has the address of the API server and the way to sign in; elsewhere, whatever --kubeconfig or the configuration names."},
			{Path: "@kube-vmap", Meaning: "The Unix socket, abstract and one for each network namespace, on which a running kube-vmap answers to root, unless --status-socket names another."},
			{Path: "/proc/sys/net/netfilter/nf_conntrack_*", Meaning: "Settings of connection tracking, written at the start and with --init-only where they differ from the configuration."},
			{Path: "/proc/self/oom_score_adj", Meaning: "Written at the start."},
		},
		SeeAlso: []string{"nft(8)", "conntrack(8)", "kubectl(1)"},
	}
}

func TestManualPagesAreUpToDate(t *testing.T) {
	pages := manual().Pages()
	kept, err := filepath.Glob(filepath.Join(manuals, "*.8"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range kept {
		if pages[filepath.Base(file)] != nil {
			continue
		}
		if !*update {
			t.Errorf("%s is about nothing: make man", file)
		} else if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range pages {
		file := filepath.Join(manuals, name)
		if *update {
			if err := os.WriteFile(file, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not up to date, make man: %v", file, err)
		}
	}
}

func TestEveryManualPageHasAllSections(t *testing.T) {
	for name, text := range manual().Pages() {
		for _, section := range []string{"NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "SEE ALSO"} {
			if !strings.Contains(string(text), `.SH "`+section+`"`) {
				t.Errorf("%s has no section %s", name, section)
			}
		}
		if strings.Contains(string(text), `\- `+"\n") {
			t.Errorf("%s: the command has no short text", name)
		}
	}
}
