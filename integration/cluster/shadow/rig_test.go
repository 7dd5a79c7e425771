package shadow

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"kube-vmap/cmd/inspect/shadow"
	"kube-vmap/integration/cluster/plane"
	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/integration/process"
	"kube-vmap/sync/source/cluster/apitest"
)

func TestMain(m *testing.M) { os.Exit(daemon.Main(m)) }

const (
	apiAddress = "127.0.0.1:6443"
	podRanges  = "10.244.0.0/16,fd00:10:244::/56"
	// patience is how long kube-proxy may take on a busy machine.
	patience = time.Minute
)

// A rig is a node with an API server and a kube-proxy.
type rig struct {
	*lab.Lab
	t       *testing.T
	api     *apitest.Server
	folder  *daemon.Folder
	proxy   *process.Process
	objects []any  // of the API
	mode    string // of kube-proxy
}

// newRig starts kube-proxy in a mode for these Services.
func newRig(t *testing.T, mode string, services []daemon.Service) *rig {
	t.Helper()
	l := labtest.New(t, lab.Options{Pods: 4, RemotePods: 2})
	r := &rig{Lab: l, t: t, api: apitest.New(), folder: daemon.EmptyFolder(t, l), mode: mode}
	var listener net.Listener
	r.must(l.Node.Do(func() (err error) { listener, err = net.Listen("tcp", apiAddress); return err }))
	server := &http.Server{Handler: r.api}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	r.put(daemon.ServiceCIDR(), daemon.NodeObject(l.Node, daemon.Zone(l.Node)), daemon.NodeObject(l.Remote, daemon.Zone(l.Remote)))
	r.put(r.folder.Objects(services...)...)
	r.start()
	return r
}

func (r *rig) put(objects ...any) {
	for _, o := range objects {
		r.api.Put(o.(apitest.Object))
	}
	r.objects = append(r.objects, objects...)
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// start runs kube-proxy and waits for its rules of both families.
func (r *rig) start() {
	r.t.Helper()
	program, err := plane.Program("kube-proxy")
	r.must(err)
	r.proxy, err = process.Start(r.t.Context(), process.Config{Program: program, Host: r.Node.Host, Args: []string{
		"--master=http://" + apiAddress, "--hostname-override=node-1", "--proxy-mode=" + r.mode, "--cluster-cidr=" + podRanges,
		"--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0", "--conntrack-tcp-timeout-close-wait=0",
	}})
	r.must(err)
	r.t.Cleanup(func() {
		r.stop()
		if r.t.Failed() {
			r.t.Logf("the end of kube-proxy's log:\n%s", r.proxy.Log.Tail())
		}
	})
	rules := map[string][2]string{"nftables": {"list map %s kube-proxy service-ips", "elements"}, "iptables": {"list table %s nat", "jump KUBE-SVC-"}}[r.mode]
	r.must(r.proxy.Within(r.t.Context(), patience, "kube-proxy's rules", func() error {
		for _, family := range []string{"ip", "ip6"} {
			out, err := r.command("nft", strings.Fields(fmt.Sprintf(rules[0], family))...)
			if err != nil || !strings.Contains(out, rules[1]) {
				return fmt.Errorf("no %s in %s: %w", rules[1], out, err)
			}
		}
		return nil
	}))
}

// stop ends kube-proxy, whose rules stay.
func (r *rig) stop() { _ = r.proxy.Stop() }

func (r *rig) command(program string, args ...string) (string, error) {
	out, err := r.Node.Command(r.t.Context(), program, args...).CombinedOutput()
	return string(out), err
}

// nft runs nft on the node, which must succeed.
func (r *rig) nft(line string) string {
	r.t.Helper()
	if _, err := exec.LookPath("nft"); err != nil {
		labtest.Lacking(r.t, err)
	}
	out, err := r.command("nft", strings.Fields(line)...)
	if err != nil {
		r.t.Fatalf("nft %s: %v\n%s", line, err, out)
	}
	return out
}

// shadow runs kube-vmap shadow --once with the capability that its DaemonSet has, and returns its report and exit code.
func (r *rig) shadow(flags ...string) (shadow.Report, int) {
	r.t.Helper()
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		labtest.Lacking(r.t, err)
	}
	out := daemon.RunBy(r.t, r.Node.Host, []string{
		setpriv, "--bounding-set=-all,+net_admin", "--inh-caps=-all", "--ambient-caps=-all",
	}, append([]string{
		"shadow", "--once", "-o", "json", "--master=http://" + apiAddress, "--hostname-override=node-1",
		"--proxy-mode=" + r.mode, "--cluster-cidr=" + podRanges,
	}, flags...)...)
	var report shadow.Report
	if out.ExitCode < 0 || out.Stdout == "" {
		r.t.Fatalf("shadow: %s", out)
	}
	if err := json.Unmarshal([]byte(out.Stdout), &report); err != nil {
		r.t.Fatalf("%v in %s", err, out)
	}
	return report, out.ExitCode
}

// settled is shadow, repeated while kube-proxy may not have followed its first objects yet: it
// writes rules before it knows the zone of its node.
func (r *rig) settled(flags ...string) (report shadow.Report, code int) {
	r.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		if report, code = r.shadow(flags...); code == 0 || time.Now().After(deadline) {
			return report, code
		}
	}
}

// unintended returns the lines of differences that count.
func unintended(r shadow.Report) (out []string) {
	for _, d := range r.Differences {
		if d.Intended == "" {
			out = append(out, fmt.Sprintf("%s %s %s %v: %s / %s", d.Service, d.Frontend, d.Kind, d.Clients, d.Ours, d.Theirs))
		}
	}
	slices.Sort(out)
	return out
}
