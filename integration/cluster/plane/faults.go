package plane

import "context"

// KillAPIServer kills the API server. From then on its port refuses connections.
func (p *Plane) KillAPIServer() { p.api.kill() }

// RestartAPIServer starts the API server, after it was killed, on the same port
// and data, and waits until it is ready.
func (p *Plane) RestartAPIServer(ctx context.Context) (err error) {
	if p.api, err = p.run("kube-apiserver", p.apiFlags()); err != nil {
		return err
	}
	return p.await(ctx, p.api, p.apiReady)
}
