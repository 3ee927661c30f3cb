//! `mqbridge status` for people.

use std::fmt::Write;

use crate::bridge::StatusReport;

/// The report as a table for a terminal.
pub fn render(report: &StatusReport) -> String {
    let mut out = String::new();
    // Writing to a string can't fail.
    let _ = write(report, &mut out);
    out
}

fn write(report: &StatusReport, out: &mut String) -> std::fmt::Result {
    let manager = &report.queue_manager;
    writeln!(out, "{} ({}), mqbridge {}, up {}", manager.name, manager.guid, manager.version, span(manager.uptime_s))?;
    writeln!(out, "listening on {}", manager.listen.join(", "))?;
    writeln!(out, "\nroutes (since the start)")?;
    for route in &report.routes {
        writeln!(
            out,
            "  {:<20} {:<11} {} -> {}: {} in, {} confirmed, {} refused, {} dead-lettered, {} waiting{}",
            route.name,
            route.state,
            route.queue,
            route.connector,
            route.received_messages,
            route.confirmed_messages,
            route.rejected_messages,
            route.dead_lettered_messages,
            route.queue_messages,
            match route.queue_messages {
                0 => String::new(),
                _ => format!(", the oldest for {}", span(route.queue_oldest_seconds)),
            },
        )?;
        if let Some(reason) = &route.reason {
            writeln!(out, "  {:<20} {reason}", "")?;
        }
    }
    for route in &report.return_routes {
        writeln!(
            out,
            "  {:<20} {:<11} {} {} -> {}: {} taken, {} refused",
            route.name,
            route.state,
            route.connector,
            route.queue,
            route.destination,
            route.received_messages,
            route.rejected_messages,
        )?;
        if let Some(reason) = &route.reason {
            writeln!(out, "  {:<20} {reason}", "")?;
        }
    }
    if report.rejected_without_route > 0 {
        writeln!(out, "  {} messages were for none of them and were refused", report.rejected_without_route)?;
    }
    writeln!(out, "\nconnectors")?;
    for connector in &report.connectors {
        let detail = match (&connector.peer, &connector.reason) {
            (Some(peer), Some(reason)) => format!("{peer}: {reason}"),
            (Some(peer), None) => peer.clone(),
            (None, Some(reason)) => format!("attempt {}: {reason}", connector.attempt),
            (None, None) => String::new(),
        };
        writeln!(out, "  {:<20} {:<11} {detail}", connector.name, connector.state)?;
    }
    write_outgoing(report, out)?;
    writeln!(out, "\nqueues")?;
    for queue in &report.queues {
        let forsaken = if queue.kind == "no-route" { "  no route has this queue" } else { "" };
        writeln!(out, "  {:<40} {:>10} messages {:>14} bytes{forsaken}", queue.name, queue.messages, queue.bytes)?;
    }
    writeln!(out, "\nsessions")?;
    for session in &report.sessions {
        writeln!(
            out,
            "  {:<24} {} {} open for {}, {} messages received",
            session.peer,
            session.source_machine,
            session.role,
            span(session.age_s),
            session.received_messages
        )?;
    }
    if report.sessions.is_empty() {
        writeln!(out, "  none")?;
    }
    Ok(())
}

fn write_outgoing(report: &StatusReport, out: &mut String) -> std::fmt::Result {
    if report.outgoing.is_empty() {
        return Ok(());
    }
    writeln!(out, "\ndestinations")?;
    for queue in &report.outgoing {
        writeln!(
            out,
            "  {:<40} {:<10} {} sent, {} given up, {} waiting{}",
            queue.destination,
            queue.state,
            queue.sent_messages,
            queue.expired_messages,
            queue.queue_messages,
            match queue.queue_messages {
                0 => String::new(),
                _ => format!(", the oldest for {}", span(queue.queue_oldest_seconds)),
            },
        )?;
        if let (Some(reason), Some(since)) = (&queue.reason, queue.failing_for_s) {
            writeln!(out, "  {:<40} for {}, attempt {}: {reason}", "", span(since), queue.attempt)?;
        }
    }
    Ok(())
}

fn span(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}
