package diagnosis

import (
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/nft"
)

// noAnswer is how long to wait for a response that does not come.
const noAnswer = 300 * time.Millisecond

// write sets a sysctl of the node. It reports false if the kernel has none of that name.
func (s *scene) write(path, value string) bool {
	s.t.Helper()
	err := s.Node.Do(func() error { return os.WriteFile("/proc/sys/net/"+path, []byte(value), 0) })
	if err != nil && !os.IsNotExist(err) {
		s.t.Fatal(err)
	}
	return err == nil
}

// TestNodeThatDoesNotForwardIsReported compares what status and problems say with what becomes of a
// connection from outside to a node port, for each way in which a node can drop what it should
// forward.
func TestNodeThatDoesNotForwardIsReported(t *testing.T) {
	s := newScene(t, 1, 0)
	web := daemon.Service{Name: "web", Number: 1, Kinds: []model.Kind{model.KindNodePort}, Endpoints: s.servers}
	s.folder.Put("web", web)
	daemon.Start(t, s.Node, s.folder)
	expect := func(t *testing.T, f model.Family, answers bool, severity string, says ...string) {
		t.Helper()
		timeout := answer
		if !answers {
			timeout = noAnswer
		}
		a, err := s.Outside.Ask(model.TCP, web.AddrPort(s.Node, f, model.KindNodePort, 0), timeout)
		if err != nil || (a.Outcome == lab.Answered) != answers {
			t.Errorf("a connection from outside: %+v, %v", a, err)
		}
		status, problems := s.run("status"), s.run("problems", "--observe", "0")
		code := 0
		if severity == "Problem" {
			code = 1
		}
		if status.ExitCode != code || problems.ExitCode != code {
			t.Errorf("%v\n%v", status, problems)
		}
		for _, text := range says {
			if !strings.Contains(status.Stdout, text) || (code == 1) != strings.Contains(problems.Stdout, text) {
				t.Errorf("want %q\n%s%s", text, status.Stdout, problems.Stdout)
			}
		}
		if severity == "" && strings.Contains(status.Stdout+problems.Stdout, "forwarded") {
			t.Errorf("forwarding is no concern:\n%s%s", status.Stdout, problems.Stdout)
		}
	}
	all := [...]struct{ path, name string }{
		model.IPv4: {"ipv4/ip_forward", "net.ipv4.ip_forward"},
		model.IPv6: {"ipv6/conf/all/forwarding", "net.ipv6.conf.all.forwarding"},
	}
	links := []string{"eth0", s.Pods[0].Link}
	for _, f := range model.Families {
		t.Run(f.String(), func(t *testing.T) {
			s.t = t
			expect(t, f, true, "")
			s.write(all[f].path, "0")
			expect(t, f, false, "Problem", f.String()+" packets of Services are not forwarded", all[f].name)
			s.write(all[f].path, "1")
			expect(t, f, true, "")
		})
	}
	t.Run("one interface", func(t *testing.T) {
		s.t = t
		for _, link := range links {
			path := "ipv4/conf/" + link + "/forwarding"
			s.write(path, "0")
			expect(t, model.IPv4, false, "Problem", "net.ipv4.conf."+link+".forwarding")
			s.write(path, "1")
		}
		s.write(all[model.IPv4].path, "0") // which sets it for all interfaces
		for _, link := range links {
			s.write("ipv4/conf/"+link+"/forwarding", "1")
		}
		expect(t, model.IPv4, true, "")
		s.write(all[model.IPv4].path, "1")
		s.write(all[model.IPv6].path, "0")                           // here, too
		if s.write("ipv6/conf/"+links[0]+"/force_forwarding", "1") { // Linux 6.17
			expect(t, model.IPv6, false, "Problem", all[model.IPv6].name) // no way back from the pod
			s.write("ipv6/conf/"+links[1]+"/force_forwarding", "1")
			expect(t, model.IPv6, true, "")
		}
		s.write(all[model.IPv6].path, "1")
	})
	t.Run("an interface that Services do not use", func(t *testing.T) {
		s.t = t
		labtest.Run(t, s.Node.Host, "", "ip", "link", "add", "storage.7", "type", "veth", "peer", "name", "peer0")
		s.write("ipv4/conf/storage.7/forwarding", "0")
		expect(t, model.IPv4, true, "")
	})
	for _, f := range model.Families {
		for _, table := range []string{nft.FamilyName(f) + " filter", "inet filter"} {
			t.Run("policy in table "+table+", "+f.String(), func(t *testing.T) {
				s.t = t
				change := func(command string) {
					labtest.Run(t, s.Node.Host, strings.ReplaceAll(command, "T", table), "nft", "-f", "-")
				}
				change("add table T; add chain T FORWARD { type filter hook forward priority 0; policy drop; }")
				expect(t, f, false, "Problem", "nothing accepts forwarded "+f.String()+" packets: policy drop in chain FORWARD of table "+table)
				change("add chain T mine; add rule T mine accept; add rule T FORWARD jump mine")
				expect(t, f, true, "Notice", "rules of other programs must accept forwarded "+f.String()+" packets")
				change("add rule T FORWARD accept")
				expect(t, f, true, "")
				change("delete table T")
			})
		}
	}
}

// TestUnusedFamilyNeedNotForward has no endpoint in a family, or only the node itself.
func TestUnusedFamilyNeedNotForward(t *testing.T) {
	for name, endpoints := range map[string]func(*scene) daemon.Service{
		"no IPv6 endpoints": func(s *scene) daemon.Service {
			return daemon.Service{Addresses: []netip.Addr{s.Pods[0].Addr(model.IPv4)}}
		},
		"the node itself": func(s *scene) daemon.Service { return daemon.Service{Endpoints: []*lab.Host{s.Node.Host}} },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, 1, 0)
			web := endpoints(s)
			web.Name, web.Number, web.Kinds = "web", 1, []model.Kind{model.KindNodePort}
			s.folder.Put("web", web)
			daemon.Start(t, s.Node, s.folder)
			s.write("ipv6/conf/all/forwarding", "0")
			if len(web.Addresses) == 0 {
				s.write("ipv4/ip_forward", "0")
			}
			if out := s.run("status"); out.ExitCode != 0 || strings.Contains(out.Stdout, "forwarded") {
				t.Errorf("%v", out)
			}
		})
	}
}
