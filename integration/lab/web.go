package lab

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// DialContext is net.Dialer.DialContext in the host's namespace. The address must be
// numeric: names would be resolved outside of it.
func (h *Host) DialContext(ctx context.Context, network, address string) (c net.Conn, err error) {
	err = h.Do(func() (err error) {
		var d net.Dialer
		c, err = d.DialContext(ctx, network, address)
		return err
	})
	return c, err
}

// Get fetches a URL with a numeric address over a new connection and returns the
// body, whatever the status.
func (h *Host) Get(url string, timeout time.Duration) (string, error) {
	client := http.Client{
		Transport: &http.Transport{DialContext: h.DialContext, DisableKeepAlives: true},
		Timeout:   timeout,
	}
	response, err := client.Get(url)
	if err != nil {
		return "", fmt.Errorf("from %s: %w", h.Name, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "", fmt.Errorf("from %s: get %s: %w", h.Name, url, err)
	}
	return string(body), nil
}
