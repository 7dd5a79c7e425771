package main

import (
	"net/http"
	"os"

	"kube-vmap/cmd/inspect/page"
	"kube-vmap/sync"
)

// statusPage is the page about what is programmed; nil if none is to be served.
func (p *proxy) statusPage(loop *sync.Loop) http.Handler {
	if !p.config.StatusPage() {
		return nil
	}
	hosts := []string{p.loop.NodeName}
	if name, err := os.Hostname(); err == nil {
		hosts = append(hosts, name) // else it has the one name only
	}
	return page.Handler(page.Config{Document: p.answer(loop), Version: version, Hosts: hosts, Log: p.log})
}
