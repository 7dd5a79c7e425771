package matrix

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/process"
	"kube-vmap/model"
)

// TestBesideFirewalld has all interfaces in the default zone, which forwards between them.
// The first reload is that of firewall-cmd.
func TestBesideFirewalld(t *testing.T) {
	var d *debian
	var stop func()
	beside(t, program{
		load: func(s *scene) {
			if d != nil {
				d.run("firewall-cmd", "--reload")
				return
			}
			d = newDebian(s)
			stop = d.startFirewalld()
		},
		unload: func(*scene) { stop(); stop = d.restartFirewalld() },
	})
}

// TestFirewalldForwardsTranslatedPacketsBetweenZones has pods in another zone than the rest:
// firewalld rejects what they send to other nodes, unless it is to a Service.
func TestFirewalldForwardsTranslatedPacketsBetweenZones(t *testing.T) {
	s := newScene(t)
	cells := s.besideCells()
	s.start(daemon.PodRanges, nodePortAddresses)
	d := newDebian(s)
	d.startFirewalld()
	for _, pod := range s.Pods {
		d.run("firewall-cmd", "--zone=internal", "--change-interface="+pod.Link)
	}
	for _, f := range model.Families {
		a, err := s.pod.Ask(model.TCP, s.RemotePods[0].AddrPort(f, daemon.TargetPort), answer)
		s.must(err)
		if a.Outcome == lab.Answered {
			t.Errorf("a pod asks one of the other node, %s: %s, want that firewalld rejects it", f, a)
		}
	}
	s.check(t, cells)
}

// TestFirewalldWithStrictForwardPortsIsReported has a firewalld that rejects translated packets.
func TestFirewalldWithStrictForwardPortsIsReported(t *testing.T) {
	s := newScene(t)
	web := daemon.Service{Name: "web", Number: 1, Kinds: daemon.Kinds[1:], Endpoints: []*lab.Host{s.Pods[0].Host}}
	s.cluster(daemon.ServiceCIDR(), daemon.NodeObject(s.Node, ""))
	s.put(web)
	s.start(daemon.PodRanges)
	d := newDebian(s)
	d.replace("etc/firewalld/firewalld.conf", "StrictForwardPorts=no", "StrictForwardPorts=yes")
	d.startFirewalld()
	for _, pod := range s.Pods {
		d.run("firewall-cmd", "--zone=internal", "--change-interface="+pod.Link)
	}
	for _, f := range model.Families {
		a, err := s.Outside.Ask(model.TCP, web.AddrPort(s.Node, f, model.KindNodePort, 0), answer)
		s.must(err)
		if a.Outcome == lab.Answered {
			t.Errorf("a client outside, %s: %s, want that firewalld rejects it", f, a)
		}
	}
	const by = "node port, pod on this node (2001:db8:c::1 -> [2001:db8:2::1]:30001/tcp): rejected with an ICMP error by table inet firewalld, chain filter_FORWARD_dnat, rule handle "
	eventually.Holds(t, "status has the rule", func() bool {
		return strings.Contains(daemon.Run(t, s.Node.Host, "status").Stdout, by)
	})
	out := daemon.Run(t, s.Node.Host, "preflight", "-o", "json")
	if _, rule, _ := strings.Cut(by, "): "); out.ExitCode != 1 || !strings.Contains(out.Stdout, rule) {
		t.Errorf("preflight: %v", out)
	}
}

// startFirewalld starts the bus and firewalld, and returns a function that stops firewalld.
func (d *debian) startFirewalld() (stop func()) {
	d.s.t.Helper()
	d.run("rm", "/usr/share/dbus-1/system-services/org.freedesktop.PolicyKit1.service") // root needs no permission
	d.start("dbus-daemon", "--system", "--nofork", "--nopidfile")
	d.succeeds("test", "-S", "/run/dbus/system_bus_socket")
	return d.restartFirewalld()
}

func (d *debian) restartFirewalld() (stop func()) {
	d.s.t.Helper()
	stop = d.start("firewalld", "--nofork", "--nopid")
	d.succeeds("firewall-cmd", "--state")
	return stop
}

// TestBesideUFW has the setting that lets the node forward packets.
func TestBesideUFW(t *testing.T) {
	var d *debian
	beside(t, program{
		load: func(s *scene) {
			if d == nil {
				d = newDebian(s)
				d.replace("etc/default/ufw", `DEFAULT_FORWARD_POLICY="DROP"`, `DEFAULT_FORWARD_POLICY="ACCEPT"`)
				d.run("ufw", "--force", "enable")
				return
			}
			d.run("ufw", "reload")
		},
		sameStart: true,
	})
}

// TestUFWDropsForwardedPackets has ufw's default: pods do not reach other nodes, with and
// without a Service.
func TestUFWDropsForwardedPackets(t *testing.T) {
	s := newScene(t)
	s.besideCells()
	s.start()
	d := newDebian(s)
	asks := func(want lab.Outcome) {
		t.Helper()
		for _, f := range model.Families {
			a, err := s.pod.Ask(model.TCP, s.RemotePods[0].AddrPort(f, daemon.TargetPort), silence)
			s.must(err)
			if a.Outcome != want {
				t.Errorf("a pod asks one of the other node, %s: %s, want %s", f, a, want)
			}
		}
	}
	asks(lab.Answered)
	d.run("ufw", "--force", "enable")
	asks(lab.TimedOut)
}

// TestBesideNftablesService loads Debian's example of /etc/nftables.conf, which begins with
// flush ruleset, beside tables that belong to kube-vmap and beside tables that do not, as
// before Linux 6.9.
func TestBesideNftablesService(t *testing.T) {
	for name, flags := range map[string][]string{
		"protected tables": nil, "tables without owner": {"--protect-tables=false"},
	} {
		t.Run(name, func(t *testing.T) {
			var d *debian
			beside(t, program{flags: flags, sameStart: true, load: func(s *scene) {
				if d == nil {
					d = newDebian(s)
				}
				d.run("nft", "-f", "/etc/nftables.conf")
				if s.generation > 0 && flags != nil {
					s.announce() // kube-vmap restores its tables before it follows this
					s.settles()
					clear(s.kept) // clients with session affinity are forgotten
				}
			}})
		})
	}
}

// TestBesideFail2ban bans a client. It still reaches Services whose endpoints are pods,
// because fail2ban drops packets to the node only.
func TestBesideFail2ban(t *testing.T) {
	var d *debian
	banned := [2]netip.Addr{nth(lab.OutsideRanges[model.IPv4], 77), nth(lab.OutsideRanges[model.IPv6], 77)}
	beside(t, program{load: func(s *scene) {
		if d == nil {
			d = newDebian(s)
			d.write("etc/fail2ban/jail.d/defaults-debian.conf", "[DEFAULT]\nbanaction = nftables\nbanaction_allports = nftables[type=allports]\n")
			d.write("etc/fail2ban/jail.d/test.conf", "[recidive]\nenabled = true\nbackend = polling\nlogpath = /var/log/fail2ban.log\nbantime = 1h\n")
			d.write("var/log/fail2ban.log", "")
			d.start("fail2ban-server", "-f", "start")
			d.succeeds("fail2ban-client", "ping")
			for _, f := range model.Families {
				s.must(s.Outside.AddAddress(banned[f]))
				s.outside.from[f] = s.Outside.Addr(f) // not the banned one
			}
		} else {
			d.run("fail2ban-client", "reload", "--restart")
		}
		for _, f := range model.Families {
			d.succeeds("fail2ban-client", "set", "recidive", "banip", banned[f].String())
		}
		// The machine's nft may be older than the one that added the sets, and crash.
		if rules := d.run("nft", "list", "ruleset"); !strings.Contains(rules, "f2b") || !strings.Contains(rules, banned[model.IPv4].String()) {
			s.t.Errorf("nothing is banned:\n%s", rules)
		}
	}, check: func(t *testing.T, s *scene) {
		it := s.outside.fromOther("a banned address", banned)
		s.check(t, asks([]*client{it}, []kind{nodePort}, serviceOf(0, 0), by(anySource, "pod-1 pod-2 remote-1")))
	}, sameStart: true})
}

// TestBesideDocker runs Docker's daemon if it can be had, and replays its rules otherwise.
func TestBesideDocker(t *testing.T) {
	if _, err := os.Stat(filepath.Join(otherPrograms, "debian/usr/sbin/dockerd")); err != nil {
		beside(t, recorded("docker"))
		return
	}
	var d *debian
	beside(t, program{load: func(s *scene) {
		if d == nil {
			d = newDebian(s)
		}
		stop := d.start("dockerd", "--host", "unix:///run/docker.sock",
			"--storage-driver", "vfs", "--data-root", "/tmp/docker", "--log-level", "warn")
		d.isReady("run/docker.sock")
		stop()
	}})
}

// isReady waits until Docker's API answers.
func (d *debian) isReady(socket string) {
	d.s.t.Helper()
	var dialer net.Dialer
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", d.path(socket))
		},
	}}
	eventually.Succeeds(d.s.t, "Docker answers", func() error {
		r, err := client.Get("http://docker/_ping")
		if err != nil {
			return err
		}
		return r.Body.Close()
	})
}

// A debian is node-1 with the files of another Debian release, in which programs run that
// must not be installed on the machine. They see the node's network, and their changes to
// files are lost at the end of the test.
type debian struct {
	s   *scene
	pid string // of a process there
}

// enterScript mounts the folder $1, with changes to it in memory, and what a machine has besides
// files.
const enterScript = `
mount -t tmpfs none "$2"
mkdir "$2/changes" "$2/work" "$2/root"
mount -t overlay -o "lowerdir=$1,upperdir=$2/changes,workdir=$2/work" none "$2/root"
cd "$2/root"
mount -t proc none proc
mount -t sysfs none sys
mount --rbind /sys/fs/cgroup sys/fs/cgroup
mount --rbind /dev dev
mount -t tmpfs none run
mount -t tmpfs none tmp
mkdir -p run/dbus run/lock
exec chroot . sh -c 'touch /run/entered; exec sleep infinity'`

func newDebian(s *scene) *debian {
	s.t.Helper()
	root := s.otherProgram("debian")
	cmd := s.Node.Command(s.t.Context(), "unshare", "--mount", "--propagation", "private", "sh", "-ec", enterScript, "sh", root, s.t.TempDir())
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	s.must(cmd.Start())
	s.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	d := &debian{s: s, pid: strconv.Itoa(cmd.Process.Pid)}
	eventually.Succeeds(s.t, "the files are mounted", func() error {
		if _, err := os.Stat(d.path("run/entered")); err != nil {
			return fmt.Errorf("%w\n%s", err, &stderr)
		}
		return nil
	})
	return d
}

// path returns where the test finds a file of the machine.
func (d *debian) path(name string) string { return filepath.Join("/proc", d.pid, "root", name) }

func (d *debian) write(name, text string) {
	d.s.t.Helper()
	d.s.must(os.MkdirAll(filepath.Dir(d.path(name)), 0o755))
	d.s.must(os.WriteFile(d.path(name), []byte(text), 0o644))
}

// replace replaces a text in a file, which must be there.
func (d *debian) replace(name, old, text string) {
	d.s.t.Helper()
	b, err := os.ReadFile(d.path(name))
	d.s.must(err)
	if !strings.Contains(string(b), old) {
		d.s.t.Fatalf("%s does not contain %q", name, old)
	}
	d.write(name, strings.ReplaceAll(string(b), old, text))
}

// debianEnv is the environment of programs there.
var debianEnv = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8"}

// enter returns the arguments of nsenter for a program that runs there.
func (d *debian) enter(args ...string) []string {
	return append([]string{"--target", d.pid, "--mount", "--root", "--wd=/proc/" + d.pid + "/root"}, args...)
}

func (d *debian) command(args ...string) *lab.Cmd {
	cmd := d.s.Node.Command(d.s.t.Context(), "nsenter", d.enter(args...)...)
	cmd.Env = debianEnv
	return cmd
}

// run runs a program there, which must succeed, and returns its output.
func (d *debian) run(args ...string) string {
	d.s.t.Helper()
	out, err := d.command(args...).CombinedOutput()
	if err != nil {
		d.s.t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// start starts a server there, which ends with the test. stop ends it earlier.
func (d *debian) start(args ...string) (stop func()) {
	t := d.s.t
	t.Helper()
	p, err := process.Start(t.Context(), process.Config{Program: "nsenter", Args: d.enter(args...), Env: debianEnv, Host: d.s.Node.Host})
	d.s.must(err)
	t.Cleanup(func() {
		if p.Kill(); t.Failed() {
			t.Logf("output of %s:\n%s%s", args[0], p.Stdout.Tail(), p.Log.Tail())
		}
	})
	return func() { _ = p.Signal(os.Interrupt); _ = p.Wait() }
}

// succeeds waits until a program succeeds there.
func (d *debian) succeeds(args ...string) {
	d.s.t.Helper()
	eventually.Succeeds(d.s.t, strings.Join(args, " "), func() error {
		out, err := d.command(args...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	})
}
