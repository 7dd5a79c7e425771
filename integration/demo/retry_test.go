package demo

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
)

const (
	rolledPods = 12
	// refusalTime is how long a pod refuses before it is no longer an endpoint, and after it has become
	// one.
	refusalTime = 250 * time.Millisecond
)

const retryIntroduction = `A Service has 12 pods, whose program ends immediately on SIGTERM, and needs a moment to
listen; it has no readiness probe. So each pod refuses connections while it is an endpoint: 0.25 s
before its end, and 0.25 s after its start. Clients in a pod, on the node and outside connect, over
IPv4 and IPv6, while all pods are replaced, one by one.`

// TestRetry is `make retry`.
func TestRetry(t *testing.T) {
	l := labtest.New(t, lab.Options{Pods: 2*rolledPods + 1})
	daemon.RouteServices(t, l, l.Node)
	client := l.Pods[2*rolledPods].Host
	d := &demo{T: t, lab: l, folder: daemon.NewFolder(t, l), clients: []*lab.Host{client, l.Node.Host, l.Outside}}
	d.nginx = daemon.Service{Name: "naive", Number: 10, ServicePorts: []daemon.ServicePort{
		{Name: "http", Protocol: model.TCP, Port: daemon.Port, Target: 8080},
	}}
	servers := map[*lab.Pod]*lab.Server{}
	serve := func(p *lab.Pod) {
		server, err := p.Serve(model.TCP, 8080)
		d.must(err)
		servers[p] = server
	}
	first, second := l.Pods[:rolledPods], l.Pods[rolledPods:2*rolledPods]
	for _, p := range first {
		serve(p)
		d.nginx.Endpoints = append(d.nginx.Endpoints, p.Host)
	}
	fmt.Println(retryIntroduction)
	d.section("kube-vmap starts, with one Service, whose pods are replaced")
	d.folder.Put("nginx", d.nginx)
	d.start()
	if refused, _ := d.rollOut(first, second, servers, serve); refused == 0 {
		d.Error("no connection was refused")
	}
	d.section("kubectl annotate service naive kube-vmap.io/retry-refused=true, and they are replaced again")
	d.nginx.RetryRefused = true
	d.change()
	refused, slowest := d.rollOut(second, first, servers, serve)
	if refused > 0 || slowest < time.Second {
		d.Errorf("%d connections were refused, the slowest took %s", refused, slowest)
	}
}

// rollOut replaces the pods while clients connect. It returns how many connections were refused, and the
// time of the slowest one.
func (d *demo) rollOut(from, to []*lab.Pod, servers map[*lab.Pod]*lab.Server, serve func(*lab.Pod)) (int, time.Duration) {
	d.Helper()
	ended, all := make(chan attempt), 0
	load := func() {
		for start := time.Now(); time.Since(start) < refusalTime; <-time.After(refusalTime / 10) {
			d.each(d.nginx, []model.Kind{model.KindClusterIP}, func(at netip.AddrPort, client *lab.Host) {
				all++
				go func() {
					a, err := client.Ask(model.TCP, at, timeout)
					ended <- attempt{client.Name, at, a, err}
				}()
			})
		}
	}
	var attempts []attempt
	for n := range from {
		d.must(servers[from[n]].Close())
		load()
		d.nginx.Endpoints[n] = to[n].Host
		d.proxy.After(func() { d.folder.Put("nginx", d.nginx) })
		load()
		serve(to[n])
		<-time.After(2 * refusalTime)
	}
	refused := 0
	for range all {
		a := <-ended
		d.must(a.err)
		if attempts = append(attempts, a); a.Outcome != lab.Answered {
			refused++
		}
	}
	slices.SortFunc(attempts, func(a, b attempt) int { return cmp.Compare(a.Took, b.Took) })
	slowest := attempts[len(attempts)-1].Took
	d.print("%d connections, %d refused; half were answered within %.1f ms, all within %.2f s",
		all, refused, attempts[len(attempts)/2].Took.Seconds()*1000, slowest.Seconds())
	return refused, slowest
}
