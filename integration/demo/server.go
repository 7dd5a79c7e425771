package main

import (
	"fmt"
	"net"
	"net/http"

	"kube-vmap/integration/lab"
)

// whoAmI is the path that returns the client's address.
const whoAmI = "/whoami"

// serve makes a pod answer "Hi from POD" over HTTP on port 80 of all its addresses,
// and the client's address under [whoAmI]. The caller must close the server.
func serve(pod *lab.Host) (*http.Server, error) {
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != whoAmI {
			_, _ = fmt.Fprintf(w, "Hi from %s\n", pod.Name)
			return
		}
		client, _, err := net.SplitHostPort(r.RemoteAddr)
		if err != nil {
			client = r.RemoteAddr
		}
		_, _ = fmt.Fprintln(w, client)
	})}
	var listener net.Listener
	err := pod.Do(func() (err error) { listener, err = net.Listen("tcp", ":80"); return err })
	if err != nil {
		return nil, fmt.Errorf("serve HTTP on %s: %w", pod.Name, err)
	}
	go func() { _ = server.Serve(listener) }() // until it is closed
	return server, nil
}
