package demo

import (
	"flag"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
)

var verbose = flag.Bool("v", false, "print details, too")

func TestMain(m *testing.M) { os.Exit(daemon.Main(m)) }

const (
	// requests is the number of requests of each client to each address: so many that
	// chance does not exceed the bounds of [demo.ask].
	requests = 240
	timeout  = time.Minute
	// healthPort is the health check node port of nginx.
	healthPort = 32080
)

// demo is a cluster, and kube-vmap on its node.
type demo struct {
	*testing.T
	lab        *lab.Lab
	pods       []*lab.Host // that serve
	clients    []*lab.Host
	folder     *daemon.Folder
	proxy      *daemon.Daemon
	nginx, dns daemon.Service
	sections   int
}

const introduction = `kube-vmap is the Service proxy of a Kubernetes node. Here the node, pods and a client
outside are network namespaces, and a folder of manifests takes the place of the API server.
After each change, requests come from a pod, from the node and from outside, over IPv4 and
IPv6. Indented are what kube-vmap logs, and who answered.`

func TestDemo(t *testing.T) {
	l := labtest.New(t, lab.Options{Pods: 5})
	daemon.RouteServices(t, l, l.Node)
	client := l.Pods[4]
	d := &demo{T: t, lab: l, folder: daemon.NewFolder(t, l)}
	d.clients = []*lab.Host{client.Host, l.Node.Host, l.Outside}
	for i, p := range l.Pods[:4] {
		d.pods = append(d.pods, p.Host)
		_, err := p.Serve(model.TCP, 8080)
		d.must(err)
		if i < 2 {
			_, err = p.Serve(model.UDP, 53)
			d.must(err)
		}
	}
	d.nginx = daemon.Service{Name: "nginx", Number: 10}
	nodePort := d.nginx.AddrPort(l.Node, model.IPv4, model.KindNodePort, 0).Port()
	d.nginx.ServicePorts = []daemon.ServicePort{
		{Name: "http", Protocol: model.TCP, Port: daemon.Port, Target: 8080, NodePort: int(nodePort)},
	}
	d.dns = daemon.Service{Name: "dns", Number: 53, Endpoints: d.pods[:2], ServicePorts: []daemon.ServicePort{
		{Name: "dns", Protocol: model.UDP, Port: daemon.Port, Target: 53},
	}}
	fmt.Println(introduction)
	d.changeEndpoints()
	d.expose()
	d.disturb()
	fmt.Println("Everything above was verified. How the rules work: docs/design.md.")
}

func (d *demo) changeEndpoints() {
	d.section("kube-vmap starts, with two Services: nginx on pod-1 to pod-3, and dns on pod-1 and pod-2")
	d.folder.Put("dns", d.dns)
	d.nginx.Endpoints = d.pods[:3]
	d.folder.Put("nginx", d.nginx)
	d.start()
	d.askBoth()
	d.section("pod-2 is no longer an endpoint of nginx")
	d.setEndpoints(0, 2)
	d.section("pod-4 becomes an endpoint of nginx")
	d.setEndpoints(0, 2, 3)
	d.section("pod-2 replaces pod-4, as in a rolling update: elements of maps change, no chain and no rule")
	from := d.proxy.Log.Len()
	d.setEndpoints(0, 1, 2)
	if n := d.proxy.Log.Find(from, "applied")[0]["objects"]; n != "0" {
		d.Errorf("a replaced endpoint changed %s chains, rules and maps", n)
	}
	d.section("nginx has no endpoints: clients do not wait for a timeout")
	d.nginx.Endpoints = nil
	d.change()
	d.refused()
	d.section("nginx has three endpoints again")
	d.setEndpoints(0, 1, 2)
}

func (d *demo) expose() {
	outside := []model.Kind{model.KindNodePort, model.KindLoadBalancerIP}
	d.section("nginx becomes a LoadBalancer, with a node port: its pods see the address of the node")
	d.nginx.Kinds = outside
	d.change()
	d.ask(d.nginx, outside...)
	d.seenAs(outside, d.lab.Node.Gateway)
	d.section("externalTrafficPolicy: Local: its pods see the address of the client")
	d.nginx.LocalOutside = true
	d.nginx.Edit = func(s *corev1.Service) { s.Spec.HealthCheckNodePort = healthPort }
	d.change()
	d.seenAs(outside, d.lab.Outside.Addr)
	body, err := d.lab.Outside.Get("http://"+d.lab.Node.AddrPort(model.IPv4, healthPort).String(), timeout)
	d.must(err)
	d.detail(body)
	if !strings.Contains(body, `"localEndpoints": 3`) {
		d.Errorf("health check: want three local endpoints: %s", body)
	}
}

func (d *demo) disturb() {
	d.section("Another program runs nft flush ruleset")
	const repaired = "repaired tables changed by another program"
	d.proxy.Ignore(repaired)
	before := d.generation()
	d.nft("flush", "ruleset")
	if d.generation() == before {
		d.print("no effect: kube-vmap owns its tables, and the kernel lets no other process change them")
	} else { // before Linux 6.9
		d.proxy.AwaitMessage(repaired)
		d.print(repaired)
	}
	d.askBoth()
	d.section("kube-vmap is killed: packets do not pass through the process")
	d.proxy.Kill()
	d.askBoth()
	d.section("kube-vmap starts again: it finds its rules")
	d.start()
	for _, e := range d.proxy.Log.Find(0, "applied") {
		// Only to own the tables, where the kernel can protect them.
		if e.Number("added")+e.Number("deleted") > 0 || e.Number("objects") > len(model.Families) {
			d.Errorf("the restart wrote: %v", e)
		}
	}
	d.askBoth()
	d.section("kube-vmap stops, and kube-vmap cleanup removes its rules")
	d.proxy.Stop()
	rules := d.nft("list", "ruleset")
	d.detail(rules)
	daemon.Run(d, d.lab.Node.Host, "cleanup", "--force")
	if left := d.nft("list", "ruleset"); rules == "" || left != "" {
		d.Errorf("kube-vmap left %q when it ended, and its cleanup %q", rules, left)
	}
}

func (d *demo) must(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

func (d *demo) section(title string) {
	d.sections++
	fmt.Printf("%2d. %s\n", d.sections, title)
}

func (d *demo) print(format string, args ...any) { fmt.Printf("      "+format+"\n", args...) }

func (d *demo) detail(text string) {
	for line := range strings.Lines(text) {
		if *verbose {
			d.print("| %s", strings.TrimRight(line, "\n"))
		}
	}
}

// start starts kube-vmap and prints what it has programmed.
func (d *demo) start() {
	d.Helper()
	d.proxy = daemon.Start(d, d.lab.Node, d.folder)
	d.log(0)
}

// setEndpoints makes these pods the endpoints of nginx, and sends requests.
func (d *demo) setEndpoints(pods ...int) {
	d.Helper()
	d.nginx.Endpoints = nil
	for _, i := range pods {
		d.nginx.Endpoints = append(d.nginx.Endpoints, d.pods[i])
	}
	d.change()
	d.ask(d.nginx, model.KindClusterIP)
}

// change writes nginx and prints what kube-vmap logs.
func (d *demo) change() {
	d.Helper()
	from := d.proxy.Log.Len()
	d.proxy.After(func() { d.folder.Put("nginx", d.nginx) })
	d.log(from)
}

// log prints what kube-vmap logged from a line on. It must be one batch, or two: chains that are
// new lead nowhere until the other is committed.
func (d *demo) log(from int) {
	d.Helper()
	for _, e := range d.proxy.Log.Find(from, "batch") {
		d.detail(e["commands"])
	}
	for _, e := range d.proxy.Log.Find(from, "applied") {
		d.print("applied services=%s endpoints=%s batches=%s added=%s deleted=%s objects=%s took=%s",
			e["services"], e["endpoints"], e["batches"], e["added"], e["deleted"], e["objects"], e["took"])
		if e.Number("batches") > 2 {
			d.Errorf("expected one batch, or two with new chains: %v", e)
		}
	}
}

// askBoth sends requests to both Services.
func (d *demo) askBoth() {
	d.Helper()
	d.ask(d.nginx, model.KindClusterIP)
	d.ask(d.dns, model.KindClusterIP)
}

// ask sends requests to addresses of a Service from all clients, each over a new connection. It
// prints which pods answered, and verifies that all did, about equally often, and that kube-vmap
// changes nothing meanwhile.
func (d *demo) ask(s daemon.Service, kinds ...model.Kind) {
	d.Helper()
	from, total, share := d.proxy.Log.Len(), map[string]int{}, requests/len(s.Endpoints)
	d.each(s, kinds, func(to netip.AddrPort, client *lab.Host) {
		tally, err := client.Burst(lab.Burst{
			Protocol: s.ServicePorts[0].Protocol, To: to, Count: requests, Workers: 4, Timeout: timeout,
		})
		d.must(err)
		d.detail(fmt.Sprintf("%s from %s: %s", to, client, tally))
		answered := 0
		for _, pod := range s.Endpoints {
			n := tally.Answered[pod.Name]
			answered, total[pod.Name] = answered+n, total[pod.Name]+n
			if n < share/3 || n > share*3 {
				d.Errorf("%d answers by %s, expected about %d", n, pod, share)
			}
		}
		if answered != requests {
			d.Errorf("%s from %s: %s", to, client, tally)
		}
	})
	line := s.Name + ":"
	for _, pod := range s.Endpoints {
		line += fmt.Sprintf(" %s %d", pod, total[pod.Name])
	}
	d.print("%s", line)
	if more := d.proxy.Log.Find(from, "applied"); len(more) > 0 {
		d.Errorf("kube-vmap did more than it had to: %v", more)
	}
}

func (d *demo) each(s daemon.Service, kinds []model.Kind, fn func(to netip.AddrPort, client *lab.Host)) {
	for _, k := range kinds {
		for _, f := range model.Families {
			for _, client := range d.clients {
				fn(s.AddrPort(d.lab.Node, f, k, 0), client)
			}
		}
	}
}

// refused verifies that requests to nginx are refused, and prints how long that takes.
func (d *demo) refused() {
	d.Helper()
	var longest time.Duration
	d.each(d.nginx, []model.Kind{model.KindClusterIP}, func(to netip.AddrPort, client *lab.Host) {
		answer, err := client.Ask(model.TCP, to, timeout)
		d.must(err)
		longest = max(longest, answer.Took)
		if answer.Outcome != lab.Refused {
			d.Errorf("request to %s from %s: %s, want connection refused", to, client, answer)
		}
	})
	d.print("connections are refused within %.1f ms", longest.Seconds()*1000)
}

// seenAs prints and verifies the client address that the pods see for requests of the host
// outside.
func (d *demo) seenAs(kinds []model.Kind, want func(model.Family) netip.Addr) {
	d.Helper()
	for _, k := range kinds {
		for _, f := range model.Families {
			for range 10 {
				answer, err := d.lab.Outside.Ask(model.TCP, d.nginx.AddrPort(d.lab.Node, f, k, 0), timeout)
				d.must(err)
				if seen := answer.Seen.Addr(); seen != want(f) {
					d.Errorf("the pod sees client address %s, want %s: %s", seen, want(f), answer)
				}
			}
		}
	}
	d.print("client outside, as pods see it: %s, %s", want(model.IPv4), want(model.IPv6))
}

// generation returns the number that the kernel gives to each state of its rule set.
func (d *demo) generation() uint32 {
	d.Helper()
	n, err := labtest.Kernel(d, d.lab.Node.Host).Generation()
	d.must(err)
	return n
}

// nft runs nft on the node and returns its output.
func (d *demo) nft(args ...string) string {
	d.Helper()
	return labtest.Run(d, d.lab.Node.Host, "", "nft", args...)
}
