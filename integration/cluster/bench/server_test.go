package bench

import (
	"net"
	"os"

	"golang.org/x/sync/errgroup"

	"kube-vmap/integration/lab"
)

// answer is the first argument of the process that serves for the pods of node-3. The others are
// the names of the pods, whose listeners it inherits in the same order.
const answer = "answer"

// serve answers for pods until it is killed.
func serve(pods []string) error {
	var group errgroup.Group
	for i, name := range pods {
		const inherited = 3 // the first descriptor after stderr
		l, err := net.FileListener(os.NewFile(uintptr(inherited+i), name))
		if err != nil {
			return err
		}
		group.Go(func() error { return lab.AnswerOn(l, name) })
	}
	return group.Wait()
}

// serveApart serves for the pods of node-3 in a process of its own, which can be stopped.
func (r *rig) serveApart(pods []*lab.Pod) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	r.server = r.Lab.Third.Command(r.Context(), program, answer)
	for _, p := range pods {
		b, err := p.Backlog(targetPort)
		if err != nil {
			return err
		}
		file, err := b.File()
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }() // the process has its own
		r.backlogs = append(r.backlogs, b)
		r.server.Args, r.server.ExtraFiles = append(r.server.Args, p.Name), append(r.server.ExtraFiles, file)
	}
	r.server.Stderr = os.Stderr
	if err := r.server.Start(); err != nil {
		return err
	}
	r.Cleanup(func() {
		_ = r.server.Process.Kill()
		_ = r.server.Wait() // that it was killed
	})
	return nil
}
