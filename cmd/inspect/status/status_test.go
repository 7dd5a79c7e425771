package status_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"kube-vmap/cmd/inspect/exit"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/nodestatus/client"
	"kube-vmap/cmd/inspect/status"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// document is the document of a node with notices, but without problems.
func document() *nodestatus.Document {
	return &nodestatus.Document{
		Source: nodestatus.FromDaemon, Node: "node-1", Version: "v1.2.3", Ready: true, Time: now, Services: []nodestatus.Service{},
		Health: &nodestatus.Health{
			Started: now.Add(-26 * time.Hour), Source: "API server",
			Positions: []nodestatus.Position{{Kind: "Service", ResourceVersion: "100"}, {Kind: "ServiceCIDR"}},
			Sync:      nodestatus.Sync{Last: now.Add(-time.Minute)},
			Tables:    []nodestatus.Table{{Family: "IPv4", State: nodestatus.TableOwned}, {Family: "IPv6", State: nodestatus.TableOpen}},
			Repairs:   nodestatus.Count{Count: 7, Last: now.Add(-time.Minute)},
			Takeover:  nodestatus.Takeover{State: nodestatus.TakeoverDone},
			Network:   &nodestatus.Network{Tracked: 7, TrackedMax: 100},
		},
	}
}

// serve serves a document on a socket, and returns its name and the last query.
func serve(t *testing.T, d *nodestatus.Document) (socket string, asked *nodestatus.Query) {
	t.Helper()
	socket, asked = "@kube-vmap-test-"+t.Name(), &nodestatus.Query{}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked = nodestatus.ParseQuery(r.URL.Query())
		_ = d.Write(w)
	})}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	return socket, asked
}

// run runs the command, and returns what it prints and its exit code.
func run(t *testing.T, args ...string) (string, int) {
	t.Helper()
	var out bytes.Buffer
	cmd := status.NewNodeCommand(&client.ThisNode{}, func(err error) error {
		if errors.Is(err, client.ErrNotRunning) {
			return fmt.Errorf("%w; explained", err)
		}
		return err
	})
	cmd.SetArgs(args)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetOut(&out)
	err := cmd.ExecuteContext(context.WithoutCancel(t.Context()))
	text := out.String()
	if err != nil {
		text += err.Error()
	}
	return text, exit.Code(err)
}

func TestStatusText(t *testing.T) {
	socket, asked := serve(t, document())
	got, code := run(t, "--status-socket", socket)
	want := `node-1: kube-vmap v1.2.3, healthy, with notices
  NOTICE        tables that another program changed were repaired, last 1m0s ago; 7 times since the start
  REFUSED       0
  OWNED         IPv4
  WARNINGS      0
  RUNNING       1d2h
  LAST-SYNC     1m0s
  SERVICES-AT   100
  TRACKED       7/100
  TAKE-OVER     done
`
	if got != want || code != 0 {
		t.Errorf("exit code %d, got\n%s\nwant\n%s", code, got, want)
	}
	if !asked.Health {
		t.Error("all Services were asked for")
	}
}

func TestExitCodeShowsProblems(t *testing.T) {
	healthy, unhealthy, silent := document(), document(), document()
	unhealthy.Health.Sync.Error, unhealthy.Health.Sync.FailingSince = "no buffer space available", now.Add(-time.Minute)
	silent.Health = nil
	for name, test := range map[string]struct {
		document *nodestatus.Document
		code     int
		contains string
	}{
		"healthy":   {healthy, 0, "healthy"},
		"unhealthy": {unhealthy, 1, "PROBLEM       changes have not reached the kernel for 1m0s: no buffer space available"},
		"silent":    {silent, exit.Trouble, "runs kube-vmap v1.2.3, which does not report its health"},
	} {
		t.Run(name, func(t *testing.T) {
			socket, _ := serve(t, test.document)
			if out, code := run(t, "--status-socket", socket); code != test.code || !strings.Contains(out, test.contains) {
				t.Errorf("exit code %d, want %d: %s", code, test.code, out)
			}
		})
	}
}

func TestJSONIsTheDocument(t *testing.T) {
	d := document()
	d.Health.Sync.Error, d.Health.Sync.FailingSince = "a problem", now
	socket, asked := serve(t, d)
	want := nodestatus.Query{Namespace: "shop", Name: "true", Brief: true}
	out, code := run(t, append([]string{"--status-socket", socket, "-o", "json"}, want.Args()...)...)
	if code != 0 || !strings.Contains(out, `"failingSince":"2026-01-02T03:04:05Z"`) {
		t.Errorf("exit code %d: %s", code, out)
	}
	if *asked != want {
		t.Errorf("asked was for %+v, want %+v", *asked, want)
	}
	if _, _ = run(t, "--status-socket", socket, "-o", "json"); *asked != (nodestatus.Query{}) {
		t.Errorf("for all Services, asked was for %+v", *asked)
	}
	if _, _ = run(t, "--status-socket", socket, "-o", "json", nodestatus.Query{Health: true}.Args()[0]); *asked != (nodestatus.Query{Health: true}) {
		t.Errorf("for health, asked was for %+v", *asked)
	}
}

// TestCauseIsPrintedOnce has an object that cannot be used, and its warning in the log.
func TestCauseIsPrintedOnce(t *testing.T) {
	d := document()
	d.Health.Refused.Objects, d.Health.Warnings = 1, nodestatus.Count{Count: 1, Last: now.Add(-time.Minute), Text: "object cannot be used"}
	socket, _ := serve(t, d)
	out, _ := run(t, "--status-socket", socket)
	if !strings.Contains(out, "1 object cannot be used, wholly or in part") || strings.Contains(out, "  REFUSED") || strings.Contains(out, "  WARNINGS") {
		t.Error(out)
	}
	if out, code := run(t, "--status-socket", socket, "-o", "yaml"); code != 0 || !strings.Contains(out, "\nhealth:\n") {
		t.Errorf("%d: %s", code, out)
	}
}

// TestReturnedTakeOverIsPrintedOnce has a node that was returned to kube-proxy, and text that no
// terminal may get.
func TestReturnedTakeOverIsPrintedOnce(t *testing.T) {
	d := document()
	d.Health.Takeover = nodestatus.Takeover{State: nodestatus.TakeoverReturned, Text: "reason=x\u009b2J"}
	socket, _ := serve(t, d)
	out, code := run(t, "--status-socket", socket)
	if code != 1 || strings.Count(out, "reason=x?2J") != 1 || !strings.HasSuffix(out, "TAKE-OVER     returned\n") {
		t.Errorf("%d: %s", code, out)
	}
	for _, format := range []string{"json", "yaml"} {
		if out, code := run(t, "--status-socket", socket, "-o", format); code != 0 || strings.Contains(out, "\u009b") || !strings.Contains(out, "reason=x") {
			t.Errorf("%s, %d: %q", format, code, out)
		}
	}
}

func TestMissingProcessIsTrouble(t *testing.T) {
	out, code := run(t, "--status-socket", "@kube-vmap-test-none")
	if code != exit.Trouble || !strings.Contains(out, client.ErrNotRunning.Error()) || !strings.HasSuffix(out, "; explained") {
		t.Errorf("without a process, exit code %d: %s", code, out)
	}
	for _, args := range [][]string{{"-o", "xml"}, {"-o", "json", "--observe", "99h"}, {"-n", "TYPO"}, {"--no-such-flag"}, {"argument"}} {
		if out, code := run(t, args...); code != exit.Trouble {
			t.Errorf("%q: exit code %d: %s", args, code, out)
		}
	}
}
