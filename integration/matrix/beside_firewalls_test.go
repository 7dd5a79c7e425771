package matrix

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// TestBesideFirewalld has all interfaces in the default zone, which forwards between them.
// The first reload is that of firewall-cmd.
func TestBesideFirewalld(t *testing.T) {
	var d *debian
	var stop func()
	start := func() { stop = d.start("firewalld", "--nofork", "--nopid"); d.succeeds("firewall-cmd", "--state") }
	beside(t, program{
		load: func(s *scene) {
			if d != nil {
				d.run("firewall-cmd", "--reload")
				return
			}
			d = newDebian(s)
			d.run("rm", "/usr/share/dbus-1/system-services/org.freedesktop.PolicyKit1.service") // root needs no permission
			d.start("dbus-daemon", "--system", "--nofork", "--nopidfile")
			d.succeeds("test", "-S", "/run/dbus/system_bus_socket")
			start()
		},
		unload: func(*scene) { stop(); start() },
	})
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
			a, err := s.pod.Ask(model.TCP, s.RemotePods[0].AddrPort(f, 8080), silence)
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

// TestBesideFail2ban bans an address that is none of the clients. Bans are for the ports of
// the node itself.
func TestBesideFail2ban(t *testing.T) {
	var d *debian
	// The machine's nft may be older than the one that added the sets, and crash.
	rules := func(*scene) string { return d.run("nft", "list", "ruleset") }
	beside(t, program{load: func(s *scene) {
		if d == nil {
			d = newDebian(s)
			d.write("etc/fail2ban/jail.d/defaults-debian.conf", "[DEFAULT]\nbanaction = nftables\nbanaction_allports = nftables[type=allports]\n")
			d.write("etc/fail2ban/jail.d/test.conf", "[recidive]\nenabled = true\nbackend = polling\nlogpath = /var/log/fail2ban.log\nbantime = 1h\n")
			d.write("var/log/fail2ban.log", "")
			d.start("fail2ban-server", "-f", "start")
			d.succeeds("fail2ban-client", "ping")
		} else {
			d.run("fail2ban-client", "reload", "--restart")
		}
		for _, f := range model.Families {
			d.succeeds("fail2ban-client", "set", "recidive", "banip", nth(lab.OutsideRanges[f], 77).String())
		}
		if rules := rules(s); !strings.Contains(rules, "f2b") || !strings.Contains(rules, "192.0.2.77") {
			s.t.Errorf("nothing is banned:\n%s", rules)
		}
	}, rules: rules, sameStart: true})
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
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, Dial: func(string, string) (net.Conn, error) {
		return net.Dial("unix", d.path(socket))
	}}}
	eventually.Succeeds(d.s.t, "Docker answers", func() error {
		r, err := client.Get("http://docker/_ping")
		if err != nil {
			return err
		}
		return r.Body.Close()
	})
}
