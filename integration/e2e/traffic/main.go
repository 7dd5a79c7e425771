// Command traffic is what runs in the cluster of `make move` while nodes change their proxy, and in
// that of `make rollout` while pods are replaced:
//
//	traffic serve ADDRESS [DELAY]   listens after DELAY, and replies to each line with the name of the host
//	traffic client TCP://ADDRESS... opens connections all the time, and keeps one open
//
// TCP is tcp4 or tcp6: with both, Go would use the other one if one fails.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	// period is the time between two connections of a client to an address.
	period = 50 * time.Millisecond
	// timeout is for a name, a connection and a reply. After a second TCP repeats a lost packet, and
	// after five seconds Go repeats a DNS query.
	timeout = 10 * time.Second
	late    = 900 * time.Millisecond
)

// A client counts from the first connection to each address on that does not fail, and prints its
// counts each second as a line of JSON. Other lines are about connections that failed or were late.
type client struct {
	mu          sync.Mutex
	Connections int    `json:"connections"`
	Failed      int    `json:"failed"`
	Late        int    `json:"late"`     // slower than the time after which TCP repeats a packet
	Slowest     string `json:"slowest"`  // of the connections that did not fail
	Kept        int    `json:"kept"`     // connections that stay open
	Requests    int    `json:"requests"` // over them
	Lost        int    `json:"lost"`     // of them
	slowest     time.Duration
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "traffic:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "serve":
		return serve(args[1])
	case len(args) == 3 && args[0] == "serve":
		delay, err := time.ParseDuration(args[2])
		if err != nil {
			return err
		}
		time.Sleep(delay)
		return serve(args[1])
	case len(args) > 1 && args[0] == "client":
		c := &client{}
		for _, address := range args[1:] {
			network, address, _ := strings.Cut(address, "://")
			go func() {
				for once(network, address) != nil {
					time.Sleep(period)
				}
				c.mu.Lock()
				c.Kept++
				c.mu.Unlock()
				go c.connect(network, address)
				c.keep(network, address)
			}()
		}
		return c.print()
	}
	return errors.New("usage: traffic serve ADDRESS [DELAY] | traffic client TCP://ADDRESS...")
}

func serve(address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			for lines := bufio.NewScanner(conn); lines.Scan(); {
				if _, err := fmt.Fprintln(conn, name); err != nil {
					return
				}
			}
		}()
	}
}

// connect opens connections to an address all the time.
func (c *client) connect(network, address string) {
	for range time.Tick(period) {
		go func() {
			start := time.Now()
			c.connected(start, once(network, address))
		}()
	}
}

// once opens a connection, sends a request and closes it.
func once(network, address string) error {
	conn, err := dial(network, address)
	if err != nil {
		return err
	}
	defer conn.Close()
	return request(conn)
}

func (c *client) connected(start time.Time, err error) {
	took := time.Since(start)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Connections++
	switch {
	case err != nil:
		c.Failed++
		printLine(start, err)
		return
	case took > late:
		c.Late++
		printLine(start, "late")
	}
	c.slowest = max(c.slowest, took)
}

// keep sends requests over one connection. Only if it fails it opens another one.
func (c *client) keep(network, address string) {
	for {
		start := time.Now()
		conn, err := dial(network, address)
		for err == nil {
			if err = request(conn); err == nil {
				c.replied()
				time.Sleep(period)
			}
		}
		c.lost(start, err)
		time.Sleep(period)
	}
}

func (c *client) replied() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Requests++
}

func (c *client) lost(start time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Lost++
	printLine(start, err)
}

func dial(network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return new(net.Dialer).DialContext(ctx, network, address)
}

// request sends a line and reads the reply.
func request(conn net.Conn) error {
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(conn, "request"); err != nil {
		return err
	}
	_, err := bufio.NewReader(conn).ReadString('\n')
	return err
}

// printLine prints when a connection began, and what happened to it until now.
func printLine(start time.Time, what any) {
	fmt.Println(start.UTC().Format("15:04:05.000"), "to", time.Now().UTC().Format("15:04:05.000"), what)
}

func (c *client) print() error {
	for range time.Tick(time.Second) {
		c.mu.Lock()
		c.Slowest = c.slowest.Round(time.Millisecond).String()
		err := json.NewEncoder(os.Stdout).Encode(c)
		c.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}
