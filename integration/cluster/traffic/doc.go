// Package traffic is what clients do: they ask Services over every protocol and
// IP family, once, or all the time while something happens.
//
//	crowd := traffic.Start(traffic.From(pod), traffic.From(node))
//	asked := crowd.Add(traffic.Service(svc, 80))
//	asked.Await(ctx)    // from a client's first answer on, each must come
//	...                 // what happens meanwhile
//	asked.Remove()      // nobody asks any more
//	failures := crowd.Stop()
//
// A client never asks twice from the same port over the same way: to connection
// tracking that would be the connection from before, with the endpoint that it
// had. A question counts as lost before TCP would have tried a second time, which
// could hide that the first packet met no rule. On a busy machine one is lost now
// and then, so that a crowd asks again: what is told is a second loss in a row, and
// losses of several clients at once.
package traffic
