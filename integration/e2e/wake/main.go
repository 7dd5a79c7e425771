// Command wake connects to Services of namespace wake that have scaled to zero, in turns, and measures
// how they wake, for `make wake-keda`:
//
//	outside --> node port -----+
//	a client pod --> its name -+--> Service without endpoint; KEDA scales its Deployment
//
// It prints a line for each wake and then a table, and fails if a mark is missed.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "how to reach the API server")
	wakes := flag.Int("wakes", 200, "how many")
	every := flag.Duration("every", 7*time.Second, "time between two")
	flag.Parse()
	if err := run(*kubeconfig, *wakes, *every); err != nil {
		fmt.Fprintln(os.Stderr, "wake:", err)
		os.Exit(1)
	}
}

// A wake is what one connection saw; times are since it began.
type wake struct {
	scaled, ready, reply time.Duration
	slept                time.Duration // from the reply to 0 replicas
	err                  error
}

func run(kubeconfig string, wakes int, every time.Duration) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	clients, sleepers, err := watch(context.Background(), client)
	if err != nil {
		return err
	}
	results := make([]wake, wakes)
	var running sync.WaitGroup
	for i := range results {
		s := sleepers[i%len(sleepers)]
		if err := s.await(idle, s.asleep); err != nil {
			return fmt.Errorf("%s before wake %d: %w", s.name, i, err)
		}
		c := clients[i%len(clients)]
		running.Go(func() {
			results[i] = s.wake(c)
			w := results[i]
			fmt.Printf("%s %-6s from %-10s scaled %.2f ready %.2f reply %.2f, 0 replicas %.0f s later %v\n",
				time.Now().UTC().Format(time.TimeOnly), s.name, c.name,
				w.scaled.Seconds(), w.ready.Seconds(), w.reply.Seconds(), w.slept.Seconds(), cmp.Or[any](w.err, ""))
		})
		time.Sleep(every)
	}
	running.Wait()
	return table(results)
}

// table prints a row for each step of a wake, and reports whether the marks are met. They are of 95 %:
// a kubelet that is late makes a pod ready when clients have long backoffs.
func table(wakes []wake) error {
	good := slices.DeleteFunc(slices.Clone(wakes), func(w wake) bool { return w.err != nil })
	fmt.Printf("%d wakes, %d of them without a reply or not back to 0\n", len(wakes), len(wakes)-len(good))
	fmt.Printf("%-32s %7s %7s %7s\n", "seconds", "median", "95 %", "max")
	missed := len(wakes) - len(good)
	if len(good) == 0 {
		return errors.New("all failed")
	}
	row := func(name string, median, limit time.Duration, of func(wake) time.Duration) {
		var all []time.Duration
		for _, w := range good {
			all = append(all, of(w))
		}
		slices.Sort(all)
		half, most := all[len(all)/2], all[len(all)*95/100]
		fmt.Printf("%-32s %7.2f %7.2f %7.2f\n", name, half.Seconds(), most.Seconds(), all[len(all)-1].Seconds())
		if half > median || most > limit {
			missed++
		}
	}
	row("from the connection to 0 -> 1", time.Second, time.Second, func(w wake) time.Duration { return w.scaled })
	row("from 0 -> 1 to a ready pod", timeout, timeout, func(w wake) time.Duration { return w.ready - w.scaled })
	row("from a ready pod to the reply", 1200*time.Millisecond, 2*time.Second,
		func(w wake) time.Duration { return w.reply - w.ready })
	row("from the connection to the reply", timeout, timeout, func(w wake) time.Duration { return w.reply })
	row("from the reply to 0 replicas", idle, idle, func(w wake) time.Duration { return w.slept })
	if missed > 0 {
		return fmt.Errorf("%d marks missed", missed)
	}
	return nil
}
