package status

import (
	"encoding/json"
	"os"
	"syscall"
	"testing"
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
)

func TestMain(m *testing.M) { os.Exit(daemon.Main(m)) }

// newLab is a node with two pods that serve, another node with one, and an external host that
// reaches Services at the node.
func newLab(t *testing.T) *lab.Lab {
	t.Helper()
	l := labtest.New(t, lab.Options{Pods: 2, RemotePods: 1})
	for _, p := range append(l.Pods, l.RemotePods...) {
		if err := p.ServeAll(daemon.TargetPort); err != nil {
			t.Fatal(err)
		}
	}
	daemon.RouteServices(t, l, l.Node)
	return l
}

// outcome is the result of a command.
type outcome struct {
	stdout, stderr string
	code           int
}

// otherUser is a user without privileges.
const otherUser = 65534

// run runs the program on a host, as a user.
func run(t *testing.T, h *lab.Host, uid uint32, args ...string) outcome {
	t.Helper()
	var rights *syscall.SysProcAttr
	if uid != 0 {
		rights = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	}
	out := daemon.RunAs(t, h, rights, args...)
	return outcome{out.Stdout, out.Stderr, out.ExitCode}
}

// get runs kube-vmap get as root, which must work.
func get(t *testing.T, h *lab.Host, args ...string) outcome {
	t.Helper()
	out := run(t, h, 0, append([]string{"get"}, args...)...)
	if out.code != 0 {
		t.Fatalf("get %q: exit code %d: %s", args, out.code, out.stderr)
	}
	return out
}

// document returns the status document of all Services.
func document(t *testing.T, h *lab.Host, args ...string) *nodestatus.Document {
	t.Helper()
	out := get(t, h, append([]string{"services", "-A", "-o", "json"}, args...)...)
	var list struct {
		Source  string
		Counted bool
		Items   []nodestatus.Service
	}
	if err := json.Unmarshal([]byte(out.stdout), &list); err != nil {
		t.Fatalf("%v in %s", err, out.stdout)
	}
	return &nodestatus.Document{Source: list.Source, Counted: list.Counted, Services: list.Items}
}

// features returns Services of all kinds.
func features(l *lab.Lab) []daemon.Service {
	all := []*lab.Host{l.Pods[0].Host, l.Pods[1].Host, l.RemotePods[0].Host}
	remote := all[2:]
	return []daemon.Service{
		{Name: "plain", Number: 1, Endpoints: all},
		{Name: "none", Number: 2, Kinds: daemon.Kinds[1:]},
		{Name: "all-kinds", Number: 3, Kinds: daemon.Kinds[1:], Endpoints: all, Ports: 2},
		{Name: "local-outside", Number: 4, Kinds: daemon.Kinds[1:], Endpoints: all, LocalOutside: true},
		{Name: "elsewhere", Number: 5, Kinds: daemon.Kinds[1:], Endpoints: remote, LocalOutside: true},
		{Name: "local-inside", Number: 6, Kinds: daemon.Kinds[1:], Endpoints: remote, LocalInside: true},
		{Name: "both-local", Number: 7, Kinds: daemon.Kinds[1:], Endpoints: all, LocalInside: true, LocalOutside: true},
		{Name: "only-local-inside", Number: 8, Endpoints: all, LocalInside: true},
		{Name: "sticky", Number: 9, Kinds: daemon.Kinds[1:], Endpoints: all, Affinity: time.Hour},
		{Name: "sticky-local", Number: 10, Kinds: daemon.Kinds[1:], Endpoints: remote, Affinity: 90 * time.Second, LocalOutside: true},
		{Name: "many", Number: 11, Endpoints: all, Times: 90},
		{Name: "many-sticky", Number: 12, Endpoints: all, Times: 90, Affinity: time.Minute},
		{Name: "round", Number: 13, Endpoints: all, Scheduler: "rr"},
		{Name: "source-hash", Number: 14, Kinds: []model.Kind{model.KindNodePort}, Endpoints: all, Scheduler: "sh"},
		{Name: "maglev", Number: 15, Endpoints: all, Scheduler: "mh"},
		{
			Name: "ranges", Number: 16, Kinds: []model.Kind{model.KindLoadBalancerIP}, Endpoints: all,
			Sources: []string{"198.51.100.0/24", "198.51.100.0/25", "2001:db8::/32"},
		},
	}
}
