package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"kube-vmap/cmd/inspect/docstest"
)

var update = flag.Bool("update", false, "rewrite the manual pages") //nolint:gochecknoglobals // a flag

// manuals is the folder of the pages.
const manuals = "../../deploy/man"

// files is for the page of kube-vmap itself.
const files = `/etc/kube-vmap/config.conf
  Where the DaemonSet has the configuration, a KubeProxyConfiguration; elsewhere, whatever
  --config names.
/etc/kube-vmap/kubeconfig.conf
  Where the DaemonSet has the address of the API server and the way to sign in; elsewhere,
  whatever --kubeconfig or the configuration names.
@kube-vmap
  The Unix socket, abstract and one for each network namespace, on which a running
  kube-vmap answers to root, unless --status-socket names another.
/proc/sys/net/netfilter/nf_conntrack_*
  Settings of connection tracking, written at the start and with --init-only where they
  differ from the configuration.
/proc/self/oom_score_adj
  Written at the start.
`

// special escapes characters that roff interprets, or prints as typographic ones, which do
// not work in a shell.
var special = strings.NewReplacer(
	`\`, `\(rs`, `-`, `\-`, `'`, `\(aq`, "`", `\(ga`, `^`, `\(ha`, `~`, `\(ti`, `"`, `\(dq`, "\n.", "\n\\&.",
)

// pages returns the manual pages of a command and its subcommands by file name. A page has the
// text of --help, line by line: its columns and sections are made for terminals.
func pages(cmd *cobra.Command) map[string]string {
	cmd.InitDefaultHelpFlag() // which --help would add
	var page strings.Builder
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	section := func(title, text string) {
		fmt.Fprintf(&page, ".SH %q\n.nf\n%s\n.fi\n", title, special.Replace(strings.TrimSpace(text)))
	}
	fmt.Fprintf(&page, `.TH "%s" "8" "" "kube\-vmap" "kube\-vmap"`+"\n", special.Replace(strings.ToUpper(name)))
	fmt.Fprintf(&page, ".SH \"NAME\"\n%s \\- %s\n", special.Replace(name), special.Replace(cmd.Short))
	section("DESCRIPTION", cmd.Long+"\n\n"+cmd.UsageString())
	out := map[string]string{}
	also := "nft(8), conntrack(8), kubectl(1)"
	if cmd.HasParent() {
		also = "kube-vmap(8)"
	} else {
		section("FILES", files)
	}
	section("SEE ALSO", also)
	out[name+".8"] = page.String()
	for _, sub := range cmd.Commands() {
		for name, text := range pages(sub) {
			out[name] = text
		}
	}
	return out
}

func TestManualPagesAreUpToDate(t *testing.T) {
	want := pages(rootCommand(io.Discard, io.Discard))
	kept, err := filepath.Glob(filepath.Join(manuals, "*.8"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range kept {
		if _, known := want[filepath.Base(file)]; known {
			continue
		}
		if !*update {
			t.Errorf("%s is about nothing: make man", file)
		} else if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range want {
		file := filepath.Join(manuals, name)
		if *update {
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, []byte(text)) {
			t.Errorf("%s is not up to date, make man: %v", file, err)
		}
	}
}

func TestCommandsInDocumentsAreValid(t *testing.T) {
	docstest.Check(t, "../..", "kube-vmap", 30, func() *cobra.Command { return rootCommand(io.Discard, io.Discard) })
}
