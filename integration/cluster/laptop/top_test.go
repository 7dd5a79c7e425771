package laptop_test

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/laptop"
	"kube-vmap/integration/cluster/objects"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// testTop has connections of a client on each of two nodes to a Service, which are added up.
func testTop(t *testing.T, c *laptop.Cluster) {
	ns := c.Namespace(t)
	ctx := clustertest.Context(t)
	server := c.Lab.ThirdPods[0]
	clustertest.Must(t, server.ServeAll(8080))
	_, err := ns.CreatePod(ctx, "web-1", "web", c.At(server))
	clustertest.Must(t, err)
	service, err := ns.CreateService(ctx, objects.Service("web", objects.Ports(80, 8080)...))
	clustertest.Must(t, err)
	c.AwaitRules(t)
	clients := []*lab.Pod{c.Lab.Pods[1], c.Lab.Pods[1], c.Lab.RemotePods[1]}
	made := 0
	for _, client := range clients {
		for _, f := range model.Families {
			for _, p := range model.Protocols {
				got, err := client.Ask(p, netip.AddrPortFrom(netip.MustParseAddr(service.Spec.ClusterIPs[f]), 80), patience)
				clustertest.Must(t, err)
				if got.Outcome != lab.Answered {
					t.Fatalf("%s over %s: %s", client, p, got)
				}
				made++
			}
		}
	}
	out := c.Kubectl(t, "vmap", "top", "--once", "-n", ns.Name)
	if out.Code != 0 || !strings.Contains(out.Stdout, "3 nodes") || !regexp.MustCompile(`web .* `+strconv.Itoa(made)+` `).MatchString(out.Stdout) {
		t.Errorf("%d connections were made: %s", made, out)
	}

	t.Run("on a terminal", func(t *testing.T) {
		term := open(t, c, "vmap", "top", "-n", ns.Name)
		term.press("", "1 services")
		if text := term.written(); !strings.Contains(text, "\x1b]11;?") || !strings.Contains(text, "\x1b[38;5;117") {
			t.Errorf("there are no colours for a dark background:\n%q", text)
		}
		term.types("\x1b]11;rgb:ffff/ffff/ffff\a") // the reply of a white terminal
		term.until("colour for a light background", func(string) bool { return strings.Contains(term.written(), "\x1b[38;5;25") })
		term.press("/web\r", "1 found")
		term.press("\r", ns.Name+"/web")
		for _, n := range c.Nodes {
			term.press("", "node       "+n.Name)
		}
		term.press("\x1b", "1 services")
		term.press("?", "CONN/S       new connections")
		term.types("q")
		term.over()
	})
	for name, end := range map[string]func(*terminal){
		"its key": func(term *terminal) { term.types("\x03") },
		"SIGINT":  func(term *terminal) { _ = term.cmd.Process.Signal(syscall.SIGINT) },
	} {
		t.Run(fmt.Sprintf("ended by %s", name), func(t *testing.T) {
			term := open(t, c, "vmap", "top", "-n", ns.Name)
			term.press("", "1 services")
			end(term)
			term.over()
			if !strings.Contains(term.written(), "\x1b[?1049l") {
				t.Error("the terminal is not as it was")
			}
		})
	}
}
