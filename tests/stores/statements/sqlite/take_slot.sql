INSERT INTO task_slots (name, instance_id) VALUES (?, ?) ON CONFLICT (name) DO NOTHING;
